// Package httploadtest tests what a server answers to those who wait when it stops.
package httploadtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/delayedop/purgatory/examples/internal/httpload"
)

// patience bounds the wait for an answer. The machine may be busy.
const patience = time.Minute

// Send sends n requests, such as "GET /path", to the server at url, each on a connection of its own. It returns
// when all are sent. The function that it returns waits for the answers: t fails if the server has hung up on
// one of the requests, or has not answered it.
func Send(t *testing.T, url string, n int, request string) (answers func() []httpload.Answer) {
	t.Helper()
	host := strings.TrimPrefix(url, "http://")
	all := make([]httpload.Answer, n)
	var reading errgroup.Group
	for i := range n {
		conn, err := net.Dial("tcp", host)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n\r\n", request, host)
		require.NoError(t, err)
		reading.Go(func() (err error) {
			defer conn.Close()
			all[i], err = read(conn)
			return err
		})
	}
	return func() []httpload.Answer {
		t.Helper()
		require.NoError(t, reading.Wait(), "a request got no answer")
		return all
	}
}

func read(conn net.Conn) (a httpload.Answer, err error) {
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	a.Status, a.Header = answer.StatusCode, answer.Header
	a.Text, err = io.ReadAll(answer.Body)
	return a, err
}

// Until polls until ok returns true.
func Until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			require.FailNow(t, "did not happen")
		}
	}
}

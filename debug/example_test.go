package debug_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// fetch waits until there is something to read.
type fetch struct{ operation.DelayedOperation }

func (*fetch) TryComplete() bool { return false }
func (*fetch) OnComplete()       {}
func (*fetch) OnExpiration()     {}

// A server mounts the page where only operators reach it. Without a browser, it is text.
func ExampleNew() {
	fetches, err := purgatory.New[string]("fetches")
	if err != nil {
		panic(err)
	}
	defer fetches.Close()
	if _, err := fetches.TryCompleteElseWatch(&fetch{}, time.Hour, "orders-0"); err != nil {
		panic(err)
	}
	page, err := debug.New(fetches)
	if err != nil {
		panic(err)
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/debug/purgatories", page)

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/purgatories?format=text", nil))
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "pending") {
			fmt.Println(lines.Text())
		}
	}
	// Output: pending 1 under 1 key; 1 accepted, 0 rejected (0 closed, 0 full, 0 input)
}

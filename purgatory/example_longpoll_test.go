package purgatory_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// news answers GET /?after=n with the items after the first n. While there are none, the
// request waits.
type news struct {
	polls *purgatory.Purgatory[string]
	mu    sync.Mutex
	items []string
}

func (n *news) after(i int) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.items[min(max(i, 0), len(n.items)):]
}

// post adds an item: it changes the state, releases the lock, and then checks the key.
func (n *news) post(item string) {
	n.mu.Lock()
	n.items = append(n.items, item)
	n.mu.Unlock()
	n.polls.CheckAndComplete("news")
}

func (n *news) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.FormValue("after"))
	ready := func() bool { return len(n.after(after)) > 0 }
	err := n.polls.Await(r.Context(), 30*time.Second, ready, "news")
	switch {
	case err == nil:
		fmt.Fprint(w, strings.Join(n.after(after), ", "))
	case errors.Is(err, purgatory.ErrExpired):
		w.WriteHeader(http.StatusNoContent) // nothing new: the client polls again
	case r.Context().Err() != nil:
		// The client has gone.
	default: // ErrClosed, or ErrFull if there is a limit
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// An HTTP long poll: the handler waits until there is news, for 30 seconds, or until its
// client has gone.
func Example_longPoll() {
	p, _ := purgatory.New[string]("longpoll")
	defer p.Close()
	n := &news{polls: p}

	answer := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/?after=0", nil))
	}()
	for p.NumDelayed() == 0 { // a test says WaitPending(1), of package purgatorytest
		runtime.Gosched()
	}
	n.post("version 1.1")
	<-done
	fmt.Println(answer.Code, answer.Body)

	n.post("version 1.2")
	answer = httptest.NewRecorder()
	n.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/?after=0", nil)) // it need not wait
	fmt.Println(answer.Code, answer.Body)
	// Output:
	// 200 version 1.1
	// 200 version 1.1, version 1.2
}

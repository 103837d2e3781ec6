// Package debugserver serves the debug page of an example's purgatories, at an address of its own.
//
//	page, err := debugserver.Serve(addr)                        // nil where addr is empty: nobody wants a page
//	p, err := purgatory.New[string]("poll", page.Options()...)  // watched, and observed if there is a page
//	page.Add(p)
//	page.Announce(os.Stdout)
//	defer page.Stop()
package debugserver

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/purgatory"
)

const (
	loopback = "127.0.0.1"
	path     = "/debug/purgatories"
)

// Flag defines -debug-addr, which says where Serve serves.
func Flag(f *flag.FlagSet, addr *string) {
	f.StringVar(addr, "debug-addr", "",
		"`address` at which to serve the debug page, such as 127.0.0.1:6060; without a host: loopback; port 0: any (empty: none)")
}

// Server serves the debug page. A nil Server serves none: its methods do nothing but for Options, so that a program need not
// ask whether somebody wants the page. It is safe for concurrent use.
type Server struct {
	page  *debug.Page
	http  *http.Server
	url   string
	ended chan struct{} // closed when the serving goroutine has ended
}

// Serve serves a page at addr, without purgatories as yet, until Stop. With an empty addr it returns nil.
func Serve(addr string) (*Server, error) {
	if addr == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("debug page: %w", err)
	}
	if host == "" {
		host = loopback // the page shows what clients have sent: who wants it on all interfaces has to say so
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("debug page: %w", err)
	}
	page, err := debug.New()
	if err != nil {
		return nil, err
	}
	s := &Server{page: page, url: "http://" + listener.Addr().String() + path, ended: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle(path, s.page)
	mux.Handle("/{$}", http.RedirectHandler(path, http.StatusFound))
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(s.ended)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // the listener is ours, and nobody else closes it
		}
	}()
	return s, nil
}

var stderr io.Writer = os.Stderr

// Options are what every example's purgatory is made with: what an operator should know is logged to standard error. If there is a
// page, it shows how long operations waited, too.
func (s *Server) Options() []purgatory.Option {
	warnings := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	opts := []purgatory.Option{purgatory.WithLogger(warnings)}
	if s == nil {
		return opts
	}
	return append(opts, purgatory.WithDiagnostics())
}

// Add shows one more purgatory.
func (s *Server) Add(p debug.Source) {
	if s != nil {
		if err := s.page.Add(p); err != nil {
			panic(err) // an example has made it
		}
	}
}

// Remove shows p no longer.
func (s *Server) Remove(p debug.Source) {
	if s != nil {
		s.page.Remove(p)
	}
}

// URL is the page's address, empty if there is no page.
func (s *Server) URL() string {
	if s == nil {
		return ""
	}
	return s.url
}

// Announce prints the page's address, if there is a page.
func (s *Server) Announce(out io.Writer) {
	if s != nil {
		fmt.Fprintf(out, "debug page: %s\n", s.url)
	}
}

// Stop ends the page and cuts off who is looking at it; no goroutine of the server itself runs afterwards.
func (s *Server) Stop() {
	if s == nil {
		return
	}
	_ = s.http.Close() // of a listener that nothing is read from any more
	<-s.ended
	s.page.Close()
}

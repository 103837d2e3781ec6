package httpload

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Server is an HTTP server that serves. End it with a method of HTTP.
type Server struct {
	HTTP   *http.Server
	URL    string
	failed chan error
}

// Serve serves at address. If address is empty, that is a free port of loopback.
func Serve(address string, handler http.Handler) (*Server, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		HTTP:   &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second},
		URL:    "http://" + listener.Addr().String(),
		failed: make(chan error, 1),
	}
	go func() { s.failed <- s.HTTP.Serve(listener) }()
	return s, nil
}

// Until blocks until ctx ends, or the server fails: it then returns why.
func (s *Server) Until(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

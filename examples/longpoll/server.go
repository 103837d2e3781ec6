package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/purgatory"
)

// server is the HTTP server and the purgatory that its GETs wait in.
type server struct {
	*handler
	http            *http.Server
	listener        net.Listener
	shutdownTimeout time.Duration
	serving         *errgroup.Group
	failed          <-chan struct{} // closed when serving ends before shutdown
	debug           *debugserver.Server
}

func startServer(cfg config, log *slog.Logger) (*server, error) {
	page, err := debugserver.Serve(cfg.debugAddr)
	if err != nil {
		return nil, err
	}
	waiting, err := purgatory.New[string]("poll",
		append(page.Options(), purgatory.WithTimeoutsExpected(), purgatory.WithMaxPending(cfg.limits.waiting), purgatory.WithLogger(log))...)
	if err != nil {
		page.Stop()
		return nil, err
	}
	page.Add(waiting)
	listener, err := net.Listen("tcp", cfg.listen)
	if err != nil {
		page.Stop()
		return nil, errors.Join(err, waiting.Close())
	}
	h := &handler{
		limits:       cfg.limits,
		writeTimeout: cfg.writeTimeout,
		log:          log,
		topics:       newTopics(cfg.limits),
		waiting:      waiting,
	}
	s := &server{
		handler:         h,
		listener:        listener,
		shutdownTimeout: cfg.shutdownTimeout,
		debug:           page,
		http: &http.Server{
			Handler:           h.routes(),
			ReadHeaderTimeout: cfg.writeTimeout,
			// Each answer of the handler sets its own deadline; this one is for what the mux answers by itself.
			WriteTimeout: cfg.limits.wait + 2*cfg.writeTimeout,
			IdleTimeout:  time.Minute,
			ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
	}
	serving, failed := errgroup.WithContext(context.Background())
	serving.Go(func() error {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	s.serving, s.failed = serving, failed.Done()
	return s, nil
}

func (s *server) url() string { return fmt.Sprintf("http://%s", s.listener.Addr()) }

// shutdown answers the GETs that wait at once, lets requests under way end, and stops everything. After the shutdown timeout it
// cuts off what is left: clients that do not take their answers.
func (s *server) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.shutdownTimeout)
	defer cancel()
	defer s.debug.Stop()
	s.draining.Store(true)
	// (1) Every Await returns ErrClosed, now and from now on. http.Server.Shutdown alone would wait for their timeouts.
	err := s.waiting.Close()
	// (2) The handlers that were woken answer.
	if late := s.http.Shutdown(ctx); late != nil {
		err = errors.Join(err, fmt.Errorf("requests still under way after %v: %w", s.shutdownTimeout, late), s.http.Close())
	}
	// (3) The purgatory's goroutines have ended, and so has the server's.
	return errors.Join(err, s.waiting.Shutdown(ctx), s.serving.Wait())
}

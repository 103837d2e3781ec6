package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/purgatory"
)

// observed is what the debug page needs from a purgatory to show ages, lateness and keys.
func observed() []purgatory.Option {
	return []purgatory.Option{purgatory.WithHistograms(), purgatory.WithKeyStats(512)}
}

// debugServer serves the debug page.
type debugServer struct {
	page *debug.Page
	http *http.Server
	url  string
}

// serveDebug serves the debug page at addr until stop; with an empty addr it does nothing, and returns nil.
func serveDebug(addr string, sources ...debug.Source) (*debugServer, error) {
	if addr == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	d := &debugServer{page: debug.Handler(sources...), url: "http://" + listener.Addr().String() + "/debug/purgatories"}
	mux := http.NewServeMux()
	mux.Handle("/debug/purgatories", d.page)
	mux.Handle("/{$}", http.RedirectHandler("/debug/purgatories", http.StatusFound))
	d.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := d.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // the listener is ours, and nobody else closes it
		}
	}()
	return d, nil
}

// announce prints the page's address, if there is a page.
func (d *debugServer) announce(out io.Writer) {
	if d != nil {
		fmt.Fprintf(out, "debug page: %s\n", d.url)
	}
}

func (d *debugServer) stop() {
	if d == nil {
		return
	}
	d.page.Close()
	_ = d.http.Close()
}

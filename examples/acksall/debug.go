package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
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

func (d *debugServer) stop() {
	if d == nil {
		return
	}
	d.page.Close()
	_ = d.http.Close()
}

// serveDebug serves the debug page of every purgatory of the cluster, if that is wanted.
func (c *cluster) serveDebug(addr string) (*debugServer, error) {
	var sources []debug.Source
	for _, p := range c.purgatories() {
		sources = append(sources, p)
	}
	d, err := serveDebug(addr, sources...)
	if d != nil {
		c.events.eventf("debug page: %s", d.url)
	}
	return d, err
}

// String is what the debug page shows of a waiting produce. No other method runs meanwhile.
func (d *delayedProduce) String() string {
	left := make([]string, len(d.waiting))
	for i, at := range d.waiting {
		left[i] = fmt.Sprintf("%v offset %d", at.replica.id, at.offset)
	}
	return fmt.Sprintf("produce %d waits for %s", d.id, strings.Join(left, ", "))
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// client speaks to the server over HTTP, as the demo's publishers and pollers do. It is safe for concurrent use.
type client struct {
	base string
	http *http.Client
}

func newClient(base string, connections int) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = connections, connections
	return &client{base: base, http: &http.Client{Transport: transport}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// reply is any answer of the server.
type reply struct {
	status     int
	retryAfter string
	body       struct {
		extent
		Offset   int64     `json:"offset"`
		Messages []message `json:"messages"`
		Error    string    `json:"error"`
	}
}

func (c *client) publish(ctx context.Context, topic, body string) (reply, error) {
	return c.do(ctx, http.MethodPost, "/topics/"+topic, body)
}

func (c *client) poll(ctx context.Context, topic string, after int64, timeout time.Duration) (reply, error) {
	return c.do(ctx, http.MethodGet, fmt.Sprintf("/topics/%s?after=%d&timeout=%v", topic, after, timeout), "")
}

func (c *client) do(ctx context.Context, method, path, body string) (reply, error) {
	var r reply
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return r, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	r.status, r.retryAfter = response.StatusCode, response.Header.Get("Retry-After")
	var whole bytes.Buffer
	if _, err := whole.ReadFrom(response.Body); err != nil {
		return r, err
	}
	return r, json.Unmarshal(whole.Bytes(), &r.body)
}

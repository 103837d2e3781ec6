// Package client calls a node of the store.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/api"
	"github.com/delayedop/purgatory/examples/heavy/raftkv/node"
)

// Client calls one node.
type Client struct {
	http *http.Client
	base string
}

// New returns a client of the node at address.
func New(address string) *Client {
	return &Client{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}, "http://" + address}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Errors of a Client, for errors.Is.
var (
	// ErrNotFound: the key was never written.
	ErrNotFound = errors.New("raftkv: not found")
	// ErrNotWritten: the write did not happen, and will not.
	ErrNotWritten = errors.New("raftkv: not written")
	// ErrNothingNew: a watch ended with its timeout.
	ErrNothingNew = errors.New("raftkv: nothing new")
)

// Put writes value under key and returns the revision. Unless the error is ErrNotWritten the write may have happened.
func (c *Client) Put(ctx context.Context, key, value string, timeout time.Duration) (uint64, error) {
	var w api.Written
	err := c.call(ctx, http.MethodPost, "/v1/put", url.Values{"timeout": {timeout.String()}}, api.Put{Key: key, Value: value}, &w)
	return w.Revision, err
}

// Get reads key, linearizably.
func (c *Client) Get(ctx context.Context, key string, timeout time.Duration) (api.Found, error) {
	var f api.Found
	err := c.call(ctx, http.MethodGet, "/v1/get", url.Values{"key": {key}, "timeout": {timeout.String()}}, nil, &f)
	return f, err
}

// Watch waits for a revision of key after a given one.
func (c *Client) Watch(ctx context.Context, key string, after uint64, timeout time.Duration) (api.Found, error) {
	var f api.Found
	q := url.Values{"key": {key}, "after": {strconv.FormatUint(after, 10)}, "timeout": {timeout.String()}}
	err := c.call(ctx, http.MethodGet, "/v1/watch", q, nil, &f)
	return f, err
}

// Join adds a member.
func (c *Client) Join(ctx context.Context, m node.Member) error {
	return c.call(ctx, http.MethodPost, "/v1/join", nil, m, &struct{}{})
}

// Status asks the node for what it knows of itself.
func (c *Client) Status(ctx context.Context) (s node.Status, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &s)
	return s, err
}

func (c *Client) call(ctx context.Context, method, path string, q url.Values, body, into any) error {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path+"?"+q.Encode(), content)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if api.Unreached(err) {
			return fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
		return err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return json.Unmarshal(reply, into)
	case http.StatusNoContent:
		return ErrNothingNew
	}
	var f api.Failure
	if err := json.Unmarshal(reply, &f); err != nil {
		return fmt.Errorf("%s: %.200q", resp.Status, reply)
	}
	err = fmt.Errorf("%s: %s", resp.Status, f.Error)
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case f.Written == api.WrittenNo:
		return fmt.Errorf("%w: %w", ErrNotWritten, err)
	}
	return err
}

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Paths of what nodes ask each other.
const (
	PathLeaderIndex = "/internal/leader-index"
)

// Remote asks other members, over HTTP, by the same routes as the engine.
type Remote struct {
	client *http.Client
}

func newRemote(m *mux) *Remote {
	return &Remote{&http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, address string) (net.Conn, error) { return m.dial(ctx, address) },
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     30 * time.Second,
	}}}
}

func (r *Remote) close() { r.client.CloseIdleConnections() }

// Do sends a request to a member. What fails before a connection stands is a *net.OpError of "dial".
func (r *Remote) Do(req *http.Request) (*http.Response, error) { return r.client.Do(req) }

// maxReply bounds what is read of an answer that is not a value.
const maxReply = 1 << 16

// LeaderIndex is [Node.LeaderIndex] of another member.
func (r *Remote) LeaderIndex(ctx context.Context, leader Member) (uint64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+leader.Address+PathLeaderIndex, nil)
	if err != nil {
		return 0, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("%w: %s does not answer: %w", ErrNoLeader, leader.ID, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply)) // as much of it as came
		return 0, fmt.Errorf("%w: %s: %s", ErrNoLeader, leader.ID, strings.TrimSpace(string(why)))
	}
	var answer LeaderIndexAnswer
	err = json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&answer)
	if err != nil || answer.Index == 0 { // an index of 0 covers nothing
		return 0, fmt.Errorf("%w: %s does not answer: %w", ErrNoLeader, leader.ID, err)
	}
	return answer.Index, nil
}

// LeaderIndexAnswer is the answer at PathLeaderIndex.
type LeaderIndexAnswer struct {
	Index uint64 `json:"index"`
}

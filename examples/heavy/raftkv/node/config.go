package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/raft"
)

// Member is a node of the cluster: who it is, and where it listens, for the engine's messages and for HTTP alike.
type Member struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// Config says what a node is. Zero values of numbers and durations stand for the defaults.
type Config struct {
	Member
	// Folder is where the node keeps its log and its snapshots.
	Folder string
	// Bootstrap lists the members of a new cluster, this node among them. Every one of them is given the same list. The folder
	// is made, and must hold no node yet: to start a node again leave Bootstrap empty.
	Bootstrap []Member
	// Join makes the folder of a node that an existing cluster is going to add. To start a node again leave it false.
	Join bool
	// Routes says where to dial in place of an address: the way through a proxy.
	Routes map[string]string

	MaxValue   int // bytes, default 1 MiB
	MaxPending int // calls that may wait, of each kind; default 100,000

	Heartbeat time.Duration // without it for so long, followers elect; default 300 ms

	SnapshotThreshold uint64        // entries between snapshots, default 8192
	SnapshotInterval  time.Duration // how often that is looked at, default 10 s
	TrailingLogs      uint64        // entries kept behind a snapshot, default 1024

	Logger *slog.Logger // default: nowhere

	// wrapLog replaces the log's storage, for tests of what a failing disk does.
	wrapLog func(raft.LogStore) raft.LogStore
}

// minHeartbeat is the least that the engine accepts.
const minHeartbeat = 5 * time.Millisecond

// MaxKey is the longest key, in bytes.
const MaxKey = 1024

// The limits of what a call may ask for.
const (
	DefaultTimeout = 5 * time.Second
	MaxTimeout     = 5 * time.Minute
)

var errConfig = errors.New("raftkv: bad configuration")

func (c *Config) complete() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{errConfig}, args...)...)
	}
	if c.ID == "" || !utf8.ValidString(c.ID) {
		return bad("the node's id is %q", c.ID)
	}
	if c.Folder == "" {
		return bad("no data folder")
	}
	if err := checkAddress(c.Address); err != nil {
		return bad("address: %w", err)
	}
	if len(c.Bootstrap) > 0 && c.Join {
		return bad("a node either bootstraps a cluster or joins one")
	}
	if err := c.checkBootstrap(); err != nil {
		return bad("%w", err)
	}
	for from, to := range c.Routes {
		if err := errors.Join(checkAddress(from), checkAddress(to)); err != nil {
			return bad("route %s=%s: %w", from, to, err)
		}
	}
	if c.MaxValue < 0 || c.MaxPending < 0 || c.Heartbeat < 0 || c.SnapshotInterval < 0 {
		return bad("negative limit or duration")
	}
	if c.Heartbeat > 0 && c.Heartbeat < minHeartbeat {
		return bad("a heartbeat of %v is below %v", c.Heartbeat, minHeartbeat)
	}
	setDefault(&c.MaxValue, 1<<20)
	setDefault(&c.MaxPending, 100_000)
	setDefault(&c.Heartbeat, 300*time.Millisecond)
	setDefault(&c.SnapshotThreshold, 8192)
	setDefault(&c.SnapshotInterval, 10*time.Second)
	setDefault(&c.TrailingLogs, 1024)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// checkBootstrap refuses a list that is not one of distinct members with this node among them.
func (c *Config) checkBootstrap() error {
	seen := make(map[string]bool)
	for _, m := range c.Bootstrap {
		if err := checkAddress(m.Address); err != nil {
			return fmt.Errorf("member %q: %w", m.ID, err)
		}
		if m.ID == "" || seen[m.ID] || seen[m.Address] {
			return fmt.Errorf("member %q at %s: empty, or listed twice", m.ID, m.Address)
		}
		if m.ID == c.ID && m.Address != c.Address {
			return fmt.Errorf("this node, %q, listens on %s, and is listed at %s", c.ID, c.Address, m.Address)
		}
		seen[m.ID], seen[m.Address] = true, true
	}
	if len(c.Bootstrap) > 0 && !seen[c.ID] {
		return fmt.Errorf("this node, %q, is not among the %d members of the new cluster", c.ID, len(c.Bootstrap))
	}
	return nil
}

func checkAddress(a string) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return err
	}
	if host == "" || port == "" || port == "0" {
		return fmt.Errorf("address %q: other nodes need a host and a fixed port", a)
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Package cluster runs members as processes of their own, each data folder its own, and does to them what happens to servers:
// it kills them, freezes them, and cuts them off from each other.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/delayedop/purgatory/examples/heavy/internal/children"
	"github.com/delayedop/purgatory/examples/heavy/raftcheck/client"
	"github.com/delayedop/purgatory/examples/heavy/raftkv/node"
	"github.com/delayedop/purgatory/examples/internal/faultproxy"
)

// Config says what to run.
type Config struct {
	Binary  string // raftkv
	Folder  string // for the members' data
	Members int    // of the new cluster
	Late    int    // members that may join later
	Args    []string
	Env     []string
}

// Member is one of the cluster's, running or not. It is for one goroutine.
type Member struct {
	node.Member
	Client *client.Client // may be used by any goroutine
	Args   []string       // for this member alone, from its next start on; they come last

	folder  string
	process *process
	frozen  bool
	started bool // has been, and so has data
}

// Cluster is members and the network between them. It is for one goroutine, its members' clients excepted.
type Cluster struct {
	cfg     Config
	Members []*Member // those that may join later come last
	network [][]*faultproxy.Proxy
}

// Start starts the members of a new cluster.
func Start(cfg Config) (*Cluster, error) {
	c := &Cluster{cfg: cfg}
	if err := c.start(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start() error {
	for i := range c.cfg.Members + c.cfg.Late {
		a, err := children.FreeAddr()
		if err != nil {
			return err
		}
		id := fmt.Sprintf("n%d", i+1)
		c.Members = append(c.Members, &Member{
			Member: node.Member{ID: id, Address: a}, Client: client.New(a), folder: filepath.Join(c.cfg.Folder, id),
		})
	}
	for i := range c.Members {
		c.network = append(c.network, make([]*faultproxy.Proxy, len(c.Members)))
		for j, to := range c.Members {
			if i == j {
				continue
			}
			p, err := faultproxy.Start(to.Address)
			if err != nil {
				return err
			}
			c.network[i][j] = p
		}
	}
	for i := range c.cfg.Members {
		if err := c.Run(i); err != nil {
			return err
		}
	}
	return nil
}

// Run starts member i, for the first time or again.
func (c *Cluster) Run(i int) error {
	m := c.Members[i]
	args := []string{"-id", m.ID, "-listen", m.Address, "-data", m.folder}
	switch {
	case m.started:
	case i < c.cfg.Members:
		for _, first := range c.Members[:c.cfg.Members] {
			args = append(args, "-bootstrap", first.ID+"="+first.Address)
		}
	default:
		args = append(args, "-join")
	}
	for j, p := range c.network[i] {
		if p != nil {
			args = append(args, "-route", c.Members[j].Address+"="+p.Addr())
		}
	}
	args = append(append(args, c.cfg.Args...), m.Args...)
	p, err := startProcess(c.cfg.Binary, args, c.cfg.Env)
	if err != nil {
		return err
	}
	m.process, m.started, m.frozen = p, true, false
	return nil
}

// Runs reports whether member i runs, and is not frozen.
func (c *Cluster) Runs(i int) bool {
	m := c.Members[i]
	return m.process != nil && m.process.runs() && !m.frozen
}

// Died returns the members that have ended without having been told to.
func (c *Cluster) Died() error {
	var all error
	for _, m := range c.Members {
		if m.process != nil && !m.process.runs() {
			all = errors.Join(all, fmt.Errorf("%s has died: %w: %s", m.ID, m.process.err, m.process.output.String()))
		}
	}
	return all
}

// Kill ends member i at once.
func (c *Cluster) Kill(i int) {
	m := c.Members[i]
	m.process.kill()
	m.process, m.frozen = nil, false
}

// Freeze stops member i in its tracks; Thaw lets it go on.
func (c *Cluster) Freeze(i int) error {
	c.Members[i].frozen = true
	return c.Members[i].process.signal(syscall.SIGSTOP)
}

// Thaw lets a frozen member go on.
func (c *Cluster) Thaw(i int) error {
	c.Members[i].frozen = false
	return c.Members[i].process.signal(syscall.SIGCONT)
}

// Isolate cuts member i off from all others, in both directions. Clients still reach it.
func (c *Cluster) Isolate(i int) {
	for j := range c.Members {
		if i != j {
			c.network[i][j].Hold(true, true)
			c.network[j][i].Hold(true, true)
		}
	}
}

// Deafen lets what member i sends arrive, and holds back every answer to it: what it replicates is stored, and it never learns.
func (c *Cluster) Deafen(i int) {
	for j := range c.Members {
		if i != j {
			c.network[i][j].Hold(false, true)
		}
	}
}

// Heal ends all that Isolate and Deafen have done.
func (c *Cluster) Heal() {
	for _, row := range c.network {
		for _, p := range row {
			if p != nil {
				p.Hold(false, false)
			}
		}
	}
}

// Leader returns the index of the member that leads, -1 if none says so. If several do, it is that of the latest term.
func (c *Cluster) Leader(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	leader, term := -1, uint64(0)
	for i, m := range c.Members {
		if !c.Runs(i) {
			continue
		}
		if s, err := m.Client.Status(ctx); err == nil && s.State == raft.Leader.String() && s.Term > term {
			leader, term = i, s.Term
		}
	}
	return leader
}

// Stop asks every member to end, and says which of them did not do so properly.
func (c *Cluster) Stop() error {
	var all error
	for i, m := range c.Members {
		if c.Runs(i) {
			if err := m.process.stop(); err != nil {
				all = errors.Join(all, fmt.Errorf("%s: %w", m.ID, err))
			}
			m.process = nil
		}
	}
	return all
}

// Close ends everything at once.
func (c *Cluster) Close() {
	for _, m := range c.Members {
		if m.process != nil {
			m.process.kill()
		}
		m.Client.Close()
	}
	for _, row := range c.network {
		for _, p := range row {
			if p != nil {
				p.Close()
			}
		}
	}
}

// Started reports whether the member has ever run.
func (m *Member) Started() bool { return m.started }

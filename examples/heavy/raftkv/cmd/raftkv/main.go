// Raftkv is one member of a replicated key-value store on hashicorp/raft, in which every wait is a wait in a purgatory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/api"
	"github.com/delayedop/purgatory/examples/heavy/raftkv/internal/defect"
	"github.com/delayedop/purgatory/examples/heavy/raftkv/node"
	"github.com/delayedop/purgatory/examples/internal/program"
)

func main() { program.Main(run) }

// run runs one member until ctx ends: it returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	c, err := parseFlags(args, errs)
	if err == nil {
		err = serve(ctx, c, out)
	}
	return program.Status("raftkv", err, errs)
}

// pairs is a flag that may be given several times, as FROM=TO.
type pairs [][2]string

func (p *pairs) String() string { return fmt.Sprint([][2]string(*p)) }

// Set adds one.
func (p *pairs) Set(s string) error {
	from, to, ok := strings.Cut(s, "=")
	if !ok || from == "" || to == "" {
		return fmt.Errorf("%q is not of the form A=B", s)
	}
	*p = append(*p, [2]string{from, to})
	return nil
}

func parseFlags(args []string, errs io.Writer) (c node.Config, err error) {
	var bootstrap, routes pairs
	f := flag.NewFlagSet("raftkv", flag.ContinueOnError)
	f.StringVar(&c.ID, "id", "", "the node's `id`, unique in the cluster for ever")
	f.StringVar(&c.Address, "listen", "", "`host:port` for clients and other nodes")
	f.StringVar(&c.Folder, "data", "", "data `folder`")
	f.Var(&bootstrap, "bootstrap", "make the data folder of a member of a new cluster: `id=host:port` of a member; once for each, the node itself too")
	f.BoolVar(&c.Join, "join", false, "make the data folder of a node that an existing cluster adds")
	f.Var(&routes, "route", "`host:port=host:port`: dial the second in place of the first; may be repeated")
	f.IntVar(&c.MaxValue, "max-value", 0, "longest value in `bytes` (default 1 MiB)")
	f.IntVar(&c.MaxPending, "max-pending", 0, "calls that may wait, of each kind (default 100,000)")
	f.DurationVar(&c.Heartbeat, "heartbeat", 0, "without one for so long, followers elect (default 300ms)")
	f.Uint64Var(&c.SnapshotThreshold, "snapshot-threshold", 0, "`entries` between snapshots (default 8192)")
	f.DurationVar(&c.SnapshotInterval, "snapshot-interval", 0, "how often that is looked at (default 10s)")
	f.Uint64Var(&c.TrailingLogs, "trailing-logs", 0, "`entries` kept behind a snapshot (default 1024)")
	level := slog.LevelWarn
	f.TextVar(&level, "log", level, "log `level`")
	err = program.Parse(f, args, errs, func() error {
		if name := os.Getenv(defect.Variable); name != "" && !defect.Available {
			return errors.New("a defect needs a binary that was built with -tags raftkv_defects: " + name)
		}
		return nil
	})
	for _, m := range bootstrap {
		c.Bootstrap = append(c.Bootstrap, node.Member{ID: m[0], Address: m[1]})
	}
	c.Routes = make(map[string]string)
	for _, r := range routes {
		c.Routes[r[0]] = r[1]
	}
	c.Logger = slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: level})).With("node", c.ID)
	return c, err
}

func serve(ctx context.Context, c node.Config, out io.Writer) error {
	n, err := node.Open(c)
	if err != nil {
		return err
	}
	server := api.Serve(n, c.Logger)
	fmt.Fprintf(out, "node %s on http://%s\n", c.ID, c.Address)
	select {
	case <-ctx.Done():
	case <-server.Failed():
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Close(closing)
}

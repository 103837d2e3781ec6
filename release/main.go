// Release checks that strangers could import this repository's modules from a revision,
// if it were tagged.
//
//	make release-check
//
// It packs the root module and the plugins, at the version that they require of one
// another, as the go command packs them from tags, into a module proxy made of files.
// From there it builds and runs programs that have no replace line, and looks at the
// modules that came along. RELEASING.md says how a release is made.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

//go:embed testdata/core/main.go
var coreProgram []byte

//go:embed testdata/every/main.go
var everyProgram []byte

// programs are what strangers could write.
var programs = []program{
	{
		name:    "a program with the root module alone",
		source:  coreProgram,
		modules: []string{""},
		want:    "satisfied expired",
		// The library links the standard library only. The others come with its tests, and the
		// program only lists them.
		links: []string{},
		listed: []string{
			"golang.org/x/sync", "go.uber.org/goleak", "go.uber.org/atomic", "github.com/stretchr/testify",
			"github.com/davecgh/go-spew", "github.com/kr/text", "github.com/pmezard/go-difflib", "gopkg.in/yaml.v3", // testify's
		},
	},
	{
		name:    "a program with the root module and every plugin",
		source:  everyProgram,
		modules: []string{"", "plugin/nats", "plugin/postgres", "plugin/prometheus"},
		want:    "awaited orders.0",
	},
}

func main() {
	repo := flag.String("repo", ".", "a folder of the repository")
	revision := flag.String("revision", "HEAD", "what would be tagged")
	keep := flag.Bool("keep", false, "keep the folder with the proxy and the programs")
	timeout := flag.Duration("timeout", 10*time.Minute, "for the whole check")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	err := inScratch(*keep, func(scratch string) error {
		return check(ctx, os.Stdout, *repo, *revision, scratch, programs)
	})
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", timedOut(err, *timeout))
		os.Exit(1)
	}
}

// timedOut adds to an error that comes from the timeout how to extend it.
func timedOut(err error, timeout time.Duration) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w\nthe check was not done after %v; for more time: make release-check ARGS=\"-timeout %v\"", err, timeout, 2*timeout)
}

// inScratch calls f with a temporary folder.
func inScratch(keep bool, f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	if keep {
		fmt.Println("the proxy and the programs are in", dir)
		return f(dir)
	}
	defer func() {
		if removed := os.RemoveAll(dir); err == nil {
			err = removed
		}
	}()
	return f(dir)
}

// check is the whole check of one revision.
func check(ctx context.Context, w io.Writer, folder, revision, scratch string, programs []program) error {
	r, err := openRevision(ctx, folder, revision)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "revision %.12s of %s\n", r.commit, r.time.Format(time.DateTime))
	if r.dirty {
		fmt.Fprintln(w, "note: uncommitted changes are not part of it")
	}
	modules, err := r.modules(ctx)
	if err != nil {
		return err
	}
	version, err := agreedVersion(modules)
	if err != nil {
		return err
	}
	if err := documented(ctx, r, modules); err != nil {
		return err
	}
	proxy, err := newProxy(ctx, scratch)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if !m.importable() {
			fmt.Fprintf(w, "not for import: %s\n", m.dir)
			continue
		}
		size, err := proxy.pack(r, m, version)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "packed: tag %-28s go %s, %d KiB\n", m.tag(version), m.file.Go.Version, size/1024)
	}
	for i, p := range programs {
		fmt.Fprintf(w, "building %s; what is not in Go's caches is downloaded and compiled\n", p.name)
		start := time.Now()
		built, err := p.build(ctx, w, proxy, modules[0].path(), version, fmt.Sprintf("%s/program%d", scratch, i))
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(w, "built and run %s: it links %d other modules and lists %d (%.0f s)\n",
			p.name, len(built.linked), len(built.listed), time.Since(start).Seconds())
		if p.listed != nil {
			for _, m := range built.listed {
				fmt.Fprintf(w, "    %s\n", m)
			}
		}
	}
	return nil
}

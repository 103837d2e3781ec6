// Command instructions counts what the ways through the library cost in instructions of the processor, in another revision and
// in this one, side by side:
//
//	go run ./proof/instructions                      # beside c576cc1a
//	go run ./proof/instructions -against HEAD~ -only life
//
// Times depend on the machine and what else it does; instructions hardly do. Package ways has what is counted. Both revisions run
// the ways of this one, under valgrind's callgrind, on one processor and without the collector. A way is gone for two numbers of
// operations: the difference is what operations cost, without what it costs to begin. The figures are medians of some rounds,
// since seeds of hashes differ, and with them the figures by one to three in a hundred.
//
// It needs git and valgrind (Debian: apt-get install valgrind).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	against := flag.String("against", "c576cc1a", "git `revision` to compare with; empty: none")
	rounds := flag.Int("rounds", 3, "how often each way is counted")
	var only regexp.Regexp
	flag.TextVar(&only, "only", regexp.MustCompile(""), "count only the ways whose names match this `regexp`")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 {
		fmt.Fprintln(os.Stderr, "instructions: no arguments, and at least one round; see -h")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *against, *rounds, &only); err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

// few and many are how often a way is gone: its batches fill both.
const few, many = 31 * 64, 188 * 64

func run(ctx context.Context, out io.Writer, against string, rounds int, only *regexp.Regexp) (err error) {
	if _, err := exec.LookPath("valgrind"); err != nil {
		return fmt.Errorf("%w (Debian: apt-get install valgrind)", err)
	}
	folder, err := os.MkdirTemp("", "instructions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	root, err := command(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	here := filepath.Join(folder, "here")
	if _, err := command(ctx, root, "go", "build", "-o", here, ways); err != nil {
		return err
	}
	programs := []string{here}
	if against != "" {
		there := filepath.Join(folder, "there")
		if err := buildOf(ctx, root, folder, against, there); err != nil {
			return fmt.Errorf("the ways of this revision, with the library of %s: %w", against, err)
		}
		programs = []string{there, here}
	}
	names, err := command(ctx, root, here, "-list")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-34s %10s %10s %7s\n", "instructions", against, "here", "ratio")
	for name := range strings.Lines(names) {
		name = strings.TrimSpace(name)
		if !only.MatchString(name) {
			continue
		}
		figures := make([][]int, len(programs))
		for range rounds {
			for i, program := range programs {
				n, err := perOperation(ctx, program, name)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				figures[i] = append(figures[i], n)
			}
		}
		fmt.Fprint(out, row(name, figures))
	}
	return nil
}

// row is a line of the table, of the figures of one program or two.
func row(name string, figures [][]int) string {
	last := median(figures[len(figures)-1])
	if len(figures) == 1 {
		return fmt.Sprintf("%-34s %10s %10d\n", name, "", last)
	}
	first := median(figures[0])
	return fmt.Sprintf("%-34s %10d %10d %7.3f\n", name, first, last, float64(last)/float64(max(first, 1)))
}

func median(figures []int) int {
	figures = slices.Sorted(slices.Values(figures))
	return figures[len(figures)/2]
}

// ways is the package of the program that goes them.
const ways = "./proof/instructions/ways"

// buildOf builds the ways of this revision with the library of another one, in a worktree that it takes away again.
func buildOf(ctx context.Context, root, folder, revision, program string) (err error) {
	tree := filepath.Join(folder, "tree")
	if _, err := command(ctx, root, "git", "worktree", "add", "--detach", tree, revision); err != nil {
		return err
	}
	defer func() {
		_, gone := command(context.WithoutCancel(ctx), root, "git", "worktree", "remove", "--force", tree)
		err = errors.Join(err, gone)
	}()
	text, err := os.ReadFile(filepath.Join(root, ways, "main.go"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(tree, ways), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, ways, "main.go"), text, 0o600); err != nil {
		return err
	}
	_, err = command(ctx, tree, "go", "build", "-o", program, ways)
	return err
}

// perOperation counts what one operation costs that goes a way.
func perOperation(ctx context.Context, program, way string) (int, error) {
	var counted [2]int
	for i, n := range [...]int{few, many} {
		// Signals that preempt a goroutine can end valgrind, and would be counted.
		out, err := command(ctx, ".", "env", "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1",
			"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, way, strconv.Itoa(n))
		if err != nil {
			return 0, err
		}
		if counted[i], err = collected(out); err != nil {
			return 0, err
		}
	}
	return (counted[1] - counted[0]) / (many - few), nil
}

var total = regexp.MustCompile(`(?m)^==\d+== Collected : (\d+)$`)

// collected returns how many instructions the output of valgrind says.
func collected(out string) (int, error) {
	m := total.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("valgrind does not say what it has collected:\n%s", out)
	}
	return strconv.Atoi(m[1])
}

// command runs a program and returns what it prints. If it fails, that is in the error.
func command(ctx context.Context, folder, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// revision is a commit of a repository.
type revision struct {
	repo   string // the folder that holds .git
	commit string
	time   time.Time
	dirty  bool // the work tree differs
}

func openRevision(ctx context.Context, folder, name string) (*revision, error) {
	git := func(args ...string) (string, error) { return output(ctx, folder, nil, "git", args...) }
	// The common folder: a linked work tree has a .git of its own that is a file, which
	// package zip does not know.
	common, err := git("rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	commit, err := git("rev-parse", "--verify", name+"^{commit}")
	if err != nil {
		return nil, err
	}
	when, err := git("show", "--no-patch", "--format=%cI", commit)
	if err != nil {
		return nil, err
	}
	committed, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return nil, err
	}
	changes, err := git("status", "--porcelain")
	if err != nil {
		return nil, err
	}
	return &revision{filepath.Dir(common), commit, committed.UTC(), changes != ""}, nil
}

// read returns a file of the revision.
func (r *revision) read(ctx context.Context, name string) (string, error) {
	return output(ctx, r.repo, nil, "git", "show", r.commit+":"+name)
}

// modules returns the modules of the revision, the root first.
func (r *revision) modules(ctx context.Context) ([]*mod, error) {
	files, err := output(ctx, r.repo, nil, "git", "ls-tree", "-r", "--name-only", "-z", "--full-tree", r.commit)
	if err != nil {
		return nil, err
	}
	modules := []*mod{nil}
	for name := range strings.SplitSeq(files, "\x00") {
		if path.Base(name) != "go.mod" || strings.Contains(name, "testdata/") {
			continue
		}
		text, err := r.read(ctx, name)
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, []byte(text), nil)
		if err != nil {
			return nil, err
		}
		if file.Module == nil || file.Go == nil {
			return nil, fmt.Errorf("%s has no module or no go line", name)
		}
		if name == "go.mod" {
			modules[0] = &mod{dir: "", file: file}
			continue
		}
		modules = append(modules, &mod{dir: path.Dir(name), file: file})
	}
	if modules[0] == nil {
		return nil, fmt.Errorf("revision %s has no go.mod in its root", r.commit)
	}
	return modules, nil
}

// output runs a command and returns what it prints, without the white space around it.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = env
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, failed.String())
	}
	return strings.TrimSpace(string(out)), nil
}

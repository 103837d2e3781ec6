// Package tree makes a copy of the library and its plugins that a command may change, and
// runs their own tests on it.
package tree

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Tree is a copy of the library's module, with those of the plugins in it. It is not safe for concurrent use.
type Tree struct{ Dir string }

// Copy copies the library from root into the existing folder dir. It leaves out what its
// tests and those of the plugins do not need: hidden folders, other modules, programs and
// models.
func Copy(root, dir string) (Tree, error) {
	return Tree{dir}, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && leftOut(path, rel) {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(dir, rel), 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), text, 0o600)
	})
}

func leftOut(path, rel string) bool {
	if strings.HasPrefix(rel, ".") {
		return true
	}
	rel = filepath.ToSlash(rel)
	if strings.HasPrefix(rel, "examples/") && !strings.HasPrefix(rel, "examples/claims") { // which tests of signals and plugins run
		return true
	}
	switch rel {
	case "proof/forgotten", "proof/instructions", "proof/internal", "proof/model", "proof/mutate", "proof/seeded", "proof/size", "proof/soak":
		return true
	}
	return isModule(path) && !strings.HasPrefix(rel, "plugin/")
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// Test runs the tests of packages whose names match pattern, or all of them if pattern is
// empty. The packages are as in "./timer" or "./..."; those of a plugin are in its own
// module, as in "./plugin/nats/...". Test returns the tests' output, and an error if one
// fails or runs for longer than timeout.
func (t Tree) Test(ctx context.Context, timeout time.Duration, flags []string, pattern, packages string) (string, error) {
	folder := strings.TrimSuffix(packages, "...")
	if dir := filepath.Join(t.Dir, folder); isModule(dir) {
		t, packages = Tree{dir}, "./"+packages[len(folder):]
	}
	// What it tests comes before flags, which may belong to the test binary.
	args := []string{"test", packages, "-vet=off", "-count=1", "-failfast", "-timeout", timeout.String()}
	if pattern != "" {
		args = append(args, "-run", pattern)
	}
	return t.Go(ctx, append(args, flags...)...)
}

// Go runs the go command in the copy and returns its output. It panics if there is no go
// command.
func (t Tree) Go(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.Dir
	cmd.Env = append(os.Environ(), "PWD="+t.Dir, "GOWORK=off")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		panic(err) // the go command could not be started
	}
	return out.String(), err
}

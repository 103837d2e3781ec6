package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// program is what a stranger could write.
type program struct {
	name    string
	source  []byte
	modules []string // the folders of the modules that it requires
	want    string   // what it prints
	// links are the modules of others whose packages may be in the binary, and listed those
	// that "go list -m all" may show beside them. Where they are nil, any may.
	links, listed []string
}

// built says which modules of others came with a program.
type built struct{ linked, listed []string }

// build makes the program in dir, with modules from the proxy, runs it, and says what is
// wrong with it. It writes each step as it begins.
func (p program) build(ctx context.Context, w io.Writer, from *proxy, root, version, dir string) (built, error) {
	goTool := func(args ...string) (string, error) {
		fmt.Fprintf(w, "    go %s ...\n", strings.Join(args[:min(2, len(args))], " "))
		return output(ctx, dir, append(slices.Clone(from.env), "GONOSUMDB="+root+","+os.Getenv("GONOSUMDB")), "go", args...)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return built{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), p.source, 0o644); err != nil {
		return built{}, err
	}
	requirements := []string{"mod", "edit"}
	for _, m := range p.modules {
		requirements = append(requirements, "-require="+path.Join(root, m)+"@"+version)
	}
	binary := filepath.Join(dir, "stranger.exe")
	for _, args := range [][]string{{"mod", "init", "example.com/stranger"}, requirements, {"mod", "tidy"}, {"build", "-trimpath", "-o", binary, "."}} {
		if _, err := goTool(args...); err != nil {
			return built{}, err
		}
	}
	fmt.Fprintln(w, "    running it ...")
	printed, err := output(ctx, dir, nil, binary)
	if err != nil {
		return built{}, err
	}
	if printed != p.want {
		return built{}, fmt.Errorf("it printed %q, want %q", printed, p.want)
	}

	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return built{}, err
	}
	var b built
	var problems []error
	ours := func(module string) bool { return module == root || strings.HasPrefix(module, root+"/") }
	for _, m := range info.Deps {
		switch {
		case !ours(m.Path):
			b.linked = append(b.linked, m.Path)
		case m.Replace != nil || m.Version != version:
			problems = append(problems, fmt.Errorf("it is built with %s %s (replaced: %t), want %s", m.Path, m.Version, m.Replace != nil, version))
		}
	}
	all, err := goTool("list", "-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all")
	if err != nil {
		return built{}, err
	}
	for m := range strings.FieldsSeq(all) {
		if !ours(m) {
			b.listed = append(b.listed, m)
		}
	}
	problems = append(problems, unexpected("it links", b.linked, p.links), unexpected("go list -m all shows", b.listed, p.listed))
	return b, errors.Join(problems...)
}

// unexpected is the error that some of have are not allowed, or nil.
func unexpected(what string, have, allowed []string) error {
	if allowed == nil {
		return nil
	}
	more := slices.DeleteFunc(slices.Clone(have), func(m string) bool { return slices.Contains(allowed, m) })
	if len(more) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s, allowed are only %s", what, strings.Join(more, ", "), strings.Join(allowed, ", "))
}

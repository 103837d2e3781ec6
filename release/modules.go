package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// mod is a module of the repository.
type mod struct {
	dir  string // with slashes; empty for the root
	file *modfile.File
}

func (m *mod) path() string { return m.file.Module.Mod.Path }

// importable reports whether the module is for strangers, and therefore tagged. The
// others (bench, examples/heavy, release, tools) are run in place.
func (m *mod) importable() bool { return m.dir == "" || strings.HasPrefix(m.dir, "plugin/") }

// tag returns the tag that makes version of the module known to the go command.
func (m *mod) tag(version string) string { return path.Join(m.dir, version) }

// agreedVersion returns the version that all modules require of one another, or says what
// stands in the way of tagging them with it.
//
// In the repository a replace line leads each requirement to the folder beside it. An
// importer's go command ignores such a line, and takes the version that is required.
func agreedVersion(modules []*mod) (version string, err error) {
	root := modules[0].path()
	importable := make(map[string]bool)
	for _, m := range modules {
		importable[m.path()] = m.importable()
	}
	var problems []error
	problem := func(m *mod, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s/go.mod: %s", path.Join(".", m.dir), fmt.Sprintf(format, args...)))
	}
	for _, m := range modules {
		if want := path.Join(root, m.dir); m.path() != want {
			problem(m, "the module is %s, must be %s, where the go command looks for it", m.path(), want)
		}
		for _, r := range m.file.Require {
			ours, known := importable[r.Mod.Path]
			switch {
			case !known:
				continue
			case !ours:
				problem(m, "it requires %s, which is not for import", r.Mod.Path)
			case version == "":
				version = r.Mod.Version
			case r.Mod.Version != version:
				problem(m, "it requires %s, others require %s", r.Mod, version)
			}
		}
		for _, r := range m.file.Replace {
			if _, ours := importable[r.Old.Path]; m.importable() && !ours {
				problem(m, "it replaces %s: an importer gets the original", r.Old.Path)
			}
		}
	}
	switch {
	case version == "":
		problems = append(problems, errors.New("no module requires another, so that no version is named"))
	case !semver.IsValid(version) || module.IsPseudoVersion(version) || version == "v0.0.0":
		problems = append(problems, fmt.Errorf("the modules require %s of one another, which is no version that can be tagged", version))
	}
	return version, errors.Join(problems...)
}

// documented says whether RELEASING.md lists each module for import with its version of Go.
func documented(ctx context.Context, r *revision, modules []*mod) error {
	text, err := r.read(ctx, "RELEASING.md")
	if err != nil {
		return err
	}
	var missing []error
	for _, m := range modules {
		row := fmt.Sprintf("| `%s` | %s |", m.path(), m.file.Go.Version)
		if m.importable() && !strings.Contains(text, row) {
			missing = append(missing, fmt.Errorf("RELEASING.md has no row that begins with %s", row))
		}
	}
	return errors.Join(missing...)
}

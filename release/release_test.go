package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// good is a small repository that can be released.
var good = map[string]string{
	"go.mod":                 "module example.com/base\n\ngo 1.25.0\n",
	"LICENSE":                "whoever reads this may use it\n",
	"base.go":                "package base\n\nconst Name = \"base\"\n",
	"RELEASING.md":           "| `example.com/base` | 1.25.0 |\n| `example.com/base/plugin/one` | 1.26.0 |\n",
	"plugin/one/go.mod":      "module example.com/base/plugin/one\n\ngo 1.26.0\n\nrequire example.com/base v0.3.0\n\nreplace example.com/base => ../..\n",
	"plugin/one/one.go":      "package one\n\nimport base \"example.com/base\"\n\nconst Name = \"one on \" + base.Name\n",
	"examples/two/go.mod":    "module example.com/base/examples/two\n\ngo 1.26.0\n\nrequire example.com/base v0.3.0\n\nreplace example.com/base => ../..\n",
	"examples/two/main.go":   "package main\n\nimport _ \"example.com/base\"\n\nfunc main() {}\n",
	"testdata/copies/go.mod": "this is no module of the repository\n",
}

// goodPrograms are programs with its modules.
var goodPrograms = []program{
	{
		name: "root", modules: []string{""}, want: "base", links: []string{}, listed: []string{},
		source: printing("example.com/base", "base.Name"),
	},
	{
		name: "plugin", modules: []string{"", "plugin/one"}, want: "one on base", links: []string{}, listed: []string{},
		source: printing("example.com/base/plugin/one", "one.Name"),
	},
}

// printing is a program that prints a constant of a package.
func printing(from, name string) []byte {
	return fmt.Appendf(nil, "package main\n\nimport (\n\t\"fmt\"\n\n\t%q\n)\n\nfunc main() { fmt.Println(%s) }\n", from, name)
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name     string
		files    map[string]string // in place of those of good
		programs []program
		want     string // of the error; empty: there is none
	}{
		{name: "good"},
		{
			name:  "no version",
			files: map[string]string{"plugin/one/go.mod": strings.ReplaceAll(good["plugin/one/go.mod"], "v0.3.0", "v0.0.0"), "examples/two/go.mod": strings.ReplaceAll(good["examples/two/go.mod"], "v0.3.0", "v0.0.0")},
			want:  "no version that can be tagged",
		},
		{
			name:  "two versions",
			files: map[string]string{"plugin/one/go.mod": strings.ReplaceAll(good["plugin/one/go.mod"], "v0.3.0", "v0.2.0")},
			want:  "others require v0.3.0",
		},
		{
			name:  "a replaced dependency",
			files: map[string]string{"plugin/one/go.mod": good["plugin/one/go.mod"] + "\nreplace example.com/other => ../other\n"},
			want:  "it replaces example.com/other",
		},
		{
			name:  "a requirement that has no tag",
			files: map[string]string{"plugin/one/go.mod": good["plugin/one/go.mod"] + "\nrequire example.com/base/examples/two v0.3.0\n"},
			want:  "example.com/base/examples/two, which is not for import",
		},
		{
			name:  "a module elsewhere",
			files: map[string]string{"plugin/one/go.mod": strings.Replace(good["plugin/one/go.mod"], "plugin/one", "plugins/one", 1)},
			want:  "must be example.com/base/plugin/one",
		},
		{
			name:  "an older version of Go in the document",
			files: map[string]string{"RELEASING.md": "| `example.com/base` | 1.25.0 |\n| `example.com/base/plugin/one` | 1.25.0 |\n"},
			want:  "no row that begins with | `example.com/base/plugin/one` | 1.26.0 |",
		},
		{
			name:  "a file that is not committed",
			files: map[string]string{".gitignore": "base.go\n"},
			want:  "root: go mod tidy",
		},
		{
			name:     "other output",
			programs: []program{{name: "root", modules: []string{""}, want: "bass", source: goodPrograms[0].source}},
			want:     `it printed "base", want "bass"`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOPROXY", "off")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			files := maps.Clone(good)
			maps.Copy(files, test.files)
			programs := test.programs
			if programs == nil {
				programs = goodPrograms
			}
			err := check(ctx, io.Discard, commit(ctx, t, files), "HEAD", t.TempDir(), programs)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
		})
	}
}

// TestWhatComesAlong has a root module that needs a module of somebody else's.
func TestWhatComesAlong(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Setenv("GOPROXY", "off")
	t.Setenv("GONOSUMDB", "example.com/other")
	other := commit(ctx, t, map[string]string{
		"go.mod":   "module example.com/other\n\ngo 1.25.0\n",
		"other.go": "package other\n\nconst Name = \"other\"\n",
	})
	theirs, err := newProxy(ctx, t.TempDir())
	require.NoError(t, err)
	r, err := openRevision(ctx, other, "HEAD")
	require.NoError(t, err)
	modules, err := r.modules(ctx)
	require.NoError(t, err)
	_, err = theirs.pack(r, modules[0], "v1.0.0")
	require.NoError(t, err)
	t.Setenv("GOPROXY", fileURL(theirs.dir))

	files := maps.Clone(good)
	files["go.mod"] += "\nrequire example.com/other v1.0.0\n"
	files["base.go"] = "package base\n\nimport \"example.com/other\"\n\nconst Name = other.Name\n"
	repo := commit(ctx, t, files)
	allowing := func(links, listed []string) error {
		p := goodPrograms[0]
		p.want, p.links, p.listed = "other", links, listed
		return check(ctx, io.Discard, repo, "HEAD", t.TempDir(), []program{p})
	}
	require.NoError(t, allowing([]string{"example.com/other"}, []string{"example.com/other"}))
	require.ErrorContains(t, allowing([]string{}, []string{"example.com/other"}), "it links example.com/other")
	require.ErrorContains(t, allowing([]string{"example.com/other"}, []string{}), "go list -m all shows example.com/other")
}

// TestLicence checks that a plugin's archive carries the licence of the root.
func TestLicence(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Setenv("GOPROXY", "off")
	dir := t.TempDir()
	require.NoError(t, check(ctx, io.Discard, commit(ctx, t, good), "HEAD", dir, goodPrograms))
	licence, err := os.ReadFile(filepath.Join(dir, "cache", "example.com", "base", "plugin", "one@v0.3.0", "LICENSE"))
	require.NoError(t, err)
	require.Equal(t, good["LICENSE"], string(licence))
}

// commit makes a repository with one commit.
func commit(ctx context.Context, t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "."},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "all"},
	} {
		_, err := output(ctx, dir, nil, "git", args...)
		require.NoError(t, err)
	}
	return dir
}

func TestTheTimeoutNamesTheWayToExtendIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, err := output(ctx, ".", nil, "go", "version")
	require.ErrorContains(t, timedOut(err, 10*time.Minute), `make release-check ARGS="-timeout 20m0s"`)
	other := errors.New("not a release")
	require.Equal(t, other, timedOut(other, time.Minute))
}

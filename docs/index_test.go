package docs

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// repository is what a page may name.
type repository struct {
	root    string
	pages   []string            // every *.md that a person writes, and the Makefile
	sources []source            // every Go file
	paths   map[string]bool     // files and folders, from the root, and from each folder above them
	targets map[string]bool     // of make
	tests   []string            // tests, benchmarks and fuzz targets
	in      map[string]set      // what a Go file or a package's folder declares: F, T, T.member
	types   map[string]bool     // that have members
	words   set                 // every name that a Go file declares or takes from elsewhere, and every string that it has
	from    map[string][]string // paths of packages, by the names that Go files give them
	std     map[string]set      // what a package of the standard library declares
}

// set has names. Where a member is in it, it has its name with and without that of its type.
type set map[string]bool

func (s set) add(name string) {
	s[name] = true
	_, member, _ := strings.Cut(name, ".")
	s[member] = true
}

// source is a Go file.
type source struct {
	path string
	file *ast.File
	fset *token.FileSet
}

var jsonTag = regexp.MustCompile(`json:"(\w+)`)

// index reads the repository at root.
func index(t *testing.T, root string) *repository {
	r := &repository{
		root: root, paths: map[string]bool{}, targets: map[string]bool{}, in: map[string]set{}, types: map[string]bool{}, words: set{},
		from: map[string][]string{}, std: map[string]set{},
	}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		for name, more := rel, true; more; _, name, more = strings.Cut(name, "/") {
			r.paths[name] = true
		}
		switch {
		case rel == "CHANGELOG.md" || d.Name() == "tables.md": // has names that are gone; is written by a program
		case strings.HasSuffix(rel, ".md"):
			r.pages = append(r.pages, rel)
		case strings.HasSuffix(rel, ".go") && !strings.Contains(rel, "testdata/"):
			r.readGo(t, rel)
		case rel == "Makefile":
			r.pages = append(r.pages, rel)
			text, err := os.ReadFile(file)
			for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllSubmatch(text, -1) {
				r.targets[string(m[1])] = true
			}
			return err
		case d.Name() == "go.mod":
			text, err := os.ReadFile(file)
			for word := range strings.FieldsSeq(string(text)) { // modules
				r.words[word] = true
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *repository) readGo(t *testing.T, file string) {
	s := source{path: file, fset: token.NewFileSet()}
	var err error
	if s.file, err = parser.ParseFile(s.fset, filepath.Join(r.root, file), nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		if !slices.Contains(r.from[name], p) {
			r.from[name] = append(r.from[name], p)
		}
	}
	dir := path.Dir(file)
	if r.in[dir] == nil {
		r.in[dir] = set{}
	}
	r.in[file] = set{}
	for name := range declared(s.file) {
		r.in[file].add(name)
		r.in[dir].add(name)
		r.words.add(name)
		if of, _, member := strings.Cut(name, "."); member {
			r.types[of] = true
		}
		if strings.HasSuffix(file, "_test.go") {
			r.tests = append(r.tests, name)
		}
	}
	r.words.add(s.file.Name.Name)
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			r.words.add(n.Sel.Name)
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil {
				r.words.add(text)
				for _, m := range jsonTag.FindAllStringSubmatch(text, -1) {
					r.words[m[1]] = true
				}
			}
		}
		return true
	})
	r.sources = append(r.sources, s)
}

// declares returns what a package declares, by its path; nil if it is neither ours nor of the standard library.
func (r *repository) declares(pkg string) set {
	if dir, ours := strings.CutPrefix(pkg, "github.com/delayedop/purgatory/"); ours {
		return r.in[dir]
	}
	if r.std[pkg] == nil && !strings.Contains(pkg, ".") {
		r.std[pkg] = set{}
		if b, err := build.Import(pkg, "", 0); err == nil {
			for _, f := range b.GoFiles {
				file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(b.Dir, f), nil, parser.SkipObjectResolution)
				if err == nil {
					for name := range declared(file) {
						r.std[pkg].add(name)
					}
				}
			}
		}
	}
	return r.std[pkg]
}

// declared returns the names that a file declares outside of functions: F, T, T.method, T.field.
func declared(f *ast.File) set {
	names := set{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			names[receiver(fn.Recv)+fn.Name.Name] = true
			continue
		}
		for _, s := range d.(*ast.GenDecl).Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				ast.Inspect(s.Type, func(n ast.Node) bool {
					if field, ok := n.(*ast.Field); ok {
						for _, n := range field.Names {
							names[s.Name.Name+"."+n.Name] = true
						}
					}
					return true
				})
			}
		}
	}
	return names
}

// receiver returns the name of a method's type and a dot; nothing for a function.
func receiver(list *ast.FieldList) (name string) {
	if list != nil {
		ast.Inspect(list.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && name == "" {
				name = id.Name + "."
			}
			return true
		})
	}
	return name
}

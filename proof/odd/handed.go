package odd

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// thing is what a user hands to a package. Its name says where, as in "Purgatory.Await(ready)", "Source.Run", "Subscription.Probe".
type thing struct {
	name  string
	calls bool // the package may call it, or one of its methods
	slice bool // it is a slice, or is called with one
}

// users returns who may be odd about it.
func (t thing) users() (all []User) {
	if t.calls {
		all = append(all, Panics, Exits, CallsBack, Closes, Stays)
	}
	if t.slice {
		all = append(all, Appends, Changes, Keeps)
	}
	return all
}

// handed returns what the exported functions and methods of the package in a folder are handed: each parameter that is a
// function, an interface, a slice, a logger, or of a type parameter; each field of a structure of this module that is a
// parameter, if it is such a thing; each method of an interface of this module, and each function that such a method
// returns; and the bodies of loops over an iterator. Options are none of it: only the package can make one.
func handed(folder string) ([]thing, error) {
	pkg, err := load(folder)
	if err != nil {
		return nil, err
	}
	f := finder{found: map[string]thing{}, seen: map[*types.TypeName]bool{}}
	for _, name := range pkg.Scope().Names() {
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			if o.Exported() {
				f.signature(name, o.Signature())
			}
		case *types.TypeName:
			if !o.Exported() || o.IsAlias() {
				continue
			}
			if types.IsInterface(o.Type()) { // users implement it
				f.look(name, o.Type())
				continue
			}
			methods := types.NewMethodSet(types.NewPointer(o.Type()))
			for i := range methods.Len() {
				if m := methods.At(i).Obj().(*types.Func); m.Exported() {
					f.signature(name+"."+m.Name(), m.Signature())
				}
			}
		}
	}
	var all []thing
	for _, t := range f.found {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b thing) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// load returns the types of the package in a folder, as the go command has compiled it.
func load(folder string) (*types.Package, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", folder)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w\n%s", folder, err, errs.String())
	}
	var path string
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		var file string
		path, file, _ = strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
	return importer.ForCompiler(token.NewFileSet(), "gc", open).Import(path) // the last one: those that it needs come before it
}

type finder struct {
	found map[string]thing
	seen  map[*types.TypeName]bool
}

func (f *finder) add(name string, calls, slice bool) { f.found[name] = thing{name, calls, slice} }

func (f *finder) signature(name string, s *types.Signature) {
	for p := range s.Params().Variables() {
		f.look(fmt.Sprintf("%s(%s)", name, p.Name()), p.Type())
	}
	for r := range s.Results().Variables() {
		if body, ok := r.Type().Underlying().(*types.Signature); ok {
			for yield := range body.Params().Variables() {
				f.look(name+": body", yield.Type())
			}
		}
	}
}

// look notes what users hand over as typ, under a name.
func (f *finder) look(name string, typ types.Type) {
	typ = types.Unalias(typ)
	var own *types.TypeName // a type of this module
	if named, ok := typ.(*types.Named); ok && named.Obj().Pkg() != nil && strings.HasPrefix(named.Obj().Pkg().Path()+"/", "github.com/delayedop/purgatory/") {
		own = named.Obj()
		if f.seen[own] {
			return
		}
	}
	if param, ok := typ.(*types.TypeParam); ok {
		f.add(param.Obj().Name(), true, false)
		return
	}
	switch under := typ.Underlying().(type) {
	case *types.Pointer:
		if under.Elem().String() == "log/slog.Logger" {
			f.add(name, true, false)
		}
	case *types.Signature:
		if own == nil || own.Name() != "Option" {
			f.function(name, under)
		}
	case *types.Slice:
		if element, ok := types.Unalias(under.Elem()).(*types.Named); !ok || element.Obj().Name() != "Option" {
			f.add(name, false, true)
		}
		f.look(name, under.Elem())
	case *types.Interface:
		if own == nil {
			f.add(name, true, false)
			return
		}
		f.seen[own] = true
		for m := range under.Methods() {
			if m.Exported() {
				f.function(own.Name()+"."+m.Name(), m.Signature())
				for r := range m.Signature().Results().Variables() {
					if s, ok := r.Type().Underlying().(*types.Signature); ok {
						f.function(own.Name()+"."+m.Name()+"()", s)
					}
				}
			}
		}
	case *types.Struct:
		if own == nil {
			return
		}
		f.seen[own] = true
		for field := range under.Fields() {
			if field.Exported() {
				f.look(own.Name()+"."+field.Name(), field.Type())
			}
		}
	}
}

func (f *finder) function(name string, s *types.Signature) {
	slice := false
	for p := range s.Params().Variables() {
		_, is := p.Type().Underlying().(*types.Slice)
		slice = slice || is
	}
	f.add(name, true, slice)
}

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
)

// mutant is one change: source[from:to] becomes text.
type mutant struct {
	from, to int
	text     string
	line     int
	what     string
}

func (m mutant) apply(source []byte) []byte {
	return slices.Concat(source[:m.from], []byte(m.text), source[m.to:])
}

// other is what an operator becomes: its neighbour at the border, its opposite where it
// has none.
var other = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==",
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+",
}

// mutants returns every change to a file: operators, truths, counters, early ends of
// loops, and statements that are left out.
func mutants(name string, source []byte) (all []mutant, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, 0)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	add := func(from, to token.Pos, text, what string) {
		all = append(all, mutant{at(from), at(to), text, set.Position(from).Line, what})
	}
	left := func(n ast.Node) { // _ = 0 keeps what is around it in shape
		add(n.Pos(), n.End(), "_ = 0", fmt.Sprintf("left out: %s", source[at(n.Pos()):at(n.End())]))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if to, ok := other[n.Op]; ok {
				end := n.OpPos + token.Pos(len(n.Op.String()))
				add(n.OpPos, end, to, fmt.Sprintf("%s in %s", to, source[at(n.Pos()):at(n.End())]))
			}
		case *ast.Ident:
			if flip := map[string]string{"true": "false", "false": "true"}[n.Name]; flip != "" {
				add(n.Pos(), n.End(), flip, flip+" for "+n.Name)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add(n.Pos(), n.X.Pos(), "", fmt.Sprintf("without the !: %s", source[at(n.Pos()):at(n.End())]))
			}
		case *ast.ExprStmt:
			if string(source[at(n.Pos()):at(n.End())]) != "sched.Yield()" { // nothing in this build
				left(n)
			}
		case *ast.IncDecStmt:
			left(n)
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				left(n)
			}
		case *ast.BranchStmt:
			if n.Label == nil && n.Tok != token.FALLTHROUGH {
				left(n)
			}
		}
		return true
	})
	return all, nil
}

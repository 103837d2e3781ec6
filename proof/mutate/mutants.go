package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one change to a file. The code at the offsets [from, to) is put between before
// and after. Together they behave like the code, or differently while the mutant is
// switched on.
type mutant struct {
	file          string
	line          int
	what          string // describes the change
	from, to      int
	before, after string // in before, # stands for the mutant's number
}

func (m mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.what) }

// pkg returns the folder of the changed package.
func (m mutant) pkg() string { return filepath.Dir(m.file) }

// replacement maps an operator to the one that replaces it: for a comparison the one that
// differs in the case of equality, for others the opposite. Comparisons with == and != are
// not here, because their mutant is the negation.
var replacement = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+", token.AND: "|", token.OR: "&", token.AND_NOT: "&",
}

// kept matches statements that are not left out: sched.Yield and assertions do nothing in a normal
// build, and without Lock or Unlock every test hangs or crashes.
var kept = regexp.MustCompile(`^(sched\.Yield\(\)|(\S+\.)?assert\w+\(.*\)|(defer )?\S+\.(Lock|Unlock|unlock)\(\))$`)

// calls matches an expression that calls a method or a function whose name has a capital
// letter after the first. It does not match conversions such as int64(x).
var calls = regexp.MustCompile(`\.[a-zA-Z]+\(|\b[a-zA-Z]+[A-Z][a-zA-Z]*\(`)

// mutants returns every change to a file: replaced operators, negated constants and
// conditions, and statements that are left out.
func mutants(name string, source []byte) (all []mutant, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, 0)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	code := func(from, to token.Pos) string { return strings.ReplaceAll(string(source[at(from):at(to)]), "\n", " ") }
	add := func(n ast.Node, before, after, what string) {
		first, _, more := strings.Cut(string(source[at(n.Pos()):at(n.End())]), "\n")
		if more {
			first += " …"
		}
		all = append(all, mutant{name, set.Position(n.Pos()).Line, what + first, at(n.Pos()), at(n.End()), before, after})
	}
	negated := func(n ast.Expr, what string) { add(n, "(mutant.On(#) != (", "))", what) }
	condition := func(n ast.Expr) {
		switch n.(type) {
		case *ast.Ident, *ast.CallExpr, *ast.SelectorExpr: // in other conditions, an operator is replaced
			negated(n, "! before ")
		}
	}
	statements := func(list []ast.Stmt) {
		for _, n := range list {
			if leftOut(n) && !kept.MatchString(code(n.Pos(), n.End())) {
				add(n, "if !mutant.On(#) { ", " }", "left out: ")
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.CONST
		case *ast.BinaryExpr:
			to, ok := replacement[n.Op]
			changed := code(n.Pos(), n.OpPos) + to + code(n.OpPos+token.Pos(len(n.Op.String())), n.End())
			switch {
			case n.Op == token.EQL || n.Op == token.NEQ:
				negated(n, "negated: ")
			case !ok:
			case n.Op.Precedence() > token.LSS.Precedence():
				if calls.MatchString(code(n.Pos(), n.End())) { // Pick would evaluate both expressions, and make the calls twice
					break
				}
				add(n, "mutant.Pick(#, "+changed+", ", ")", to+" in ")
			default:
				add(n, "(mutant.On(#) && ("+changed+") || !mutant.On(#) && (", "))", to+" in ")
			}
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				negated(n, "not ")
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				negated(n, "without the !: ")
			}
		case *ast.IfStmt:
			condition(n.Cond)
		case *ast.ForStmt:
			condition(n.Cond)
		case *ast.BlockStmt:
			statements(n.List)
		case *ast.CaseClause:
			statements(n.Body)
		case *ast.CommClause:
			statements(n.Body)
		}
		return true
	})
	return all, nil
}

// leftOut reports whether n is a kind of statement that can be left out.
func leftOut(n ast.Stmt) bool {
	switch n := n.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
		return true
	case *ast.AssignStmt:
		return n.Tok != token.DEFINE
	case *ast.ReturnStmt:
		return len(n.Results) == 0
	case *ast.BranchStmt:
		return n.Label == nil && n.Tok != token.FALLTHROUGH
	}
	return false
}

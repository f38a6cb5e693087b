package mutants

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A metamutant (Untch, Offutt and Harrold, 1993) is the module with many mutants in it, of which
// the environment selects one, or none. It is built once, where each mutant alone would have to be
// compiled and linked. A function that mutants change begins with a switch; their bodies are
// functions of their own behind it:
//
//	func (s *collecting) drain(ctx context.Context) error { switch activeMutant {
//		case "collection_without_drain": return s.drain_collection_without_drain(ctx) }
//
// A mutant that changes more than bodies of functions is built alone.

// mutated is a file with what mutants make of it.
type mutated struct {
	original source
	by       map[string]source // by the name of the mutant
}

// metamutant makes one of all mutants that it can hold.
func metamutant(t *testing.T, all []*mutant) *build {
	t.Helper()
	files := map[string]*mutated{}
	for _, m := range all {
		m.alone = !m.joins(t, files, m.apply(t))
	}
	texts := map[string][]byte{}
	for path, f := range files {
		texts[path] = f.combine()
		// The files of a package agree on this one.
		texts[filepath.Join(filepath.Dir(path), "activemutant.go")] = fmt.Appendf(nil,
			"package %s\n\nimport \"os\"\n\nvar activeMutant = os.Getenv(%q)\n", f.original.file.Name.Name, variable)
	}
	return newBuild(t, texts)
}

// program returns the mutant: the metamutant with this one active, or one that is built alone.
func (m *mutant) program(t *testing.T, together *build) program {
	t.Helper()
	if m.alone {
		return program{newBuild(t, m.apply(t)), ""}
	}
	return program{together, m.name}
}

// joins adds what a mutant makes of files, unless the metamutant cannot hold that.
func (m *mutant) joins(t *testing.T, files map[string]*mutated, texts map[string][]byte) bool {
	t.Helper()
	parsed := map[string]source{}
	for path, text := range texts {
		if files[path] == nil {
			files[path] = &mutated{original: parse(t, path, nil), by: map[string]source{}}
		}
		parsed[path] = parse(t, path, text)
		if !files[path].original.differsInBodies(parsed[path]) {
			return false
		}
	}
	for path, s := range parsed {
		files[path].by[m.name] = s
	}
	return true
}

// source is a file of Go.
type source struct {
	text      []byte
	file      *ast.File
	functions map[string]*ast.FuncDecl
	base      token.Pos
}

func parse(t *testing.T, path string, text []byte) source {
	t.Helper()
	if text == nil {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	s := source{text, file, map[string]*ast.FuncDecl{}, file.FileStart}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			name := f.Name.Name
			if f.Recv != nil {
				name = s.between(f.Recv.List[0].Type.Pos(), f.Recv.List[0].Type.End()) + "." + name
			}
			s.functions[name] = f
		}
	}
	return s
}

func (s source) between(begin, end token.Pos) string {
	return string(s.text[begin-s.base : end-s.base])
}

func (s source) signature(f *ast.FuncDecl) string { return s.between(f.Pos(), f.Body.Lbrace) }
func (s source) body(f *ast.FuncDecl) string      { return s.between(f.Body.Lbrace, f.End()) }

// declarations are those beside functions and imports.
func (s source) declarations() (all []string) {
	for _, d := range s.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok != token.IMPORT {
			all = append(all, s.between(g.Pos(), g.End()))
		}
	}
	return all
}

// imports are the specifications of the imports.
func (s source) imports() (all []string) {
	for _, i := range s.file.Imports {
		all = append(all, s.between(i.Pos(), i.End()))
	}
	return all
}

// differsInBodies says whether another source differs from this one in bodies of functions only,
// which can go on as others.
func (s source) differsInBodies(other source) bool {
	if !slices.Equal(s.declarations(), other.declarations()) || len(s.functions) != len(other.functions) {
		return false
	}
	for name, f := range s.functions {
		g := other.functions[name]
		if g == nil || s.signature(f) != other.signature(g) || s.body(f) != other.body(g) && !passable(f) {
			return false
		}
	}
	return true
}

// passable says whether a function can name all that it was called with.
func passable(f *ast.FuncDecl) bool {
	unnamed := func(p *ast.Field) bool { return len(p.Names) == 0 }
	return f.Type.TypeParams == nil && !slices.ContainsFunc(f.Type.Params.List, unnamed) && (f.Recv == nil || !unnamed(f.Recv.List[0]))
}

// insertion is text that goes into a source.
type insertion struct {
	at, end token.Pos // of what it replaces
	text    string
}

// combine returns the file with all of its mutants in it. What is original stays in its line.
func (f *mutated) combine() []byte {
	s := f.original
	var changes []insertion
	var behind bytes.Buffer
	imports := s.imports()
	for _, mutant := range slices.Sorted(maps.Keys(f.by)) {
		for _, i := range f.by[mutant].imports() {
			if !slices.Contains(imports, i) {
				imports = append(imports, i)
				changes = append(changes, insertion{s.file.Name.End(), s.file.Name.End(), "; import " + i})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.functions)) {
		original, cases := s.functions[name], ""
		for _, mutant := range slices.Sorted(maps.Keys(f.by)) {
			by := f.by[mutant]
			if other := by.functions[name]; by.body(other) != s.body(original) {
				changed := original.Name.Name + "_" + mutant // a name of its own
				cases += fmt.Sprintf("case %q: %s; ", mutant, call(original, changed))
				fmt.Fprintf(&behind, "\n%s%s%s\n", by.between(other.Pos(), other.Name.Pos()), changed, by.between(other.Name.End(), other.End()))
			}
		}
		if cases == "" {
			continue
		}
		changes = append(changes, insertion{original.Body.Lbrace + 1, original.Body.Lbrace + 1, " switch activeMutant { " + cases + "}; "})
		changes = append(changes, named(original)...)
	}
	slices.SortStableFunc(changes, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var out bytes.Buffer
	at := s.base
	for _, c := range changes {
		out.WriteString(s.between(at, c.at) + c.text)
		at = c.end
	}
	out.WriteString(s.between(at, s.base+token.Pos(len(s.text))))
	out.Write(behind.Bytes())
	return out.Bytes()
}

// named replaces the parameters that have no name.
func named(f *ast.FuncDecl) (changes []insertion) {
	for n, p := range parameters(f) {
		if p.Name == "_" {
			changes = append(changes, insertion{p.Pos(), p.End(), parameter(n)})
		}
	}
	return changes
}

func parameter(n int) string { return "parameter" + strconv.Itoa(n) }

func parameters(f *ast.FuncDecl) (all []*ast.Ident) {
	for _, p := range f.Type.Params.List {
		all = append(all, p.Names...)
	}
	return all
}

// call is a statement by which a function ends as another with its parameters.
func call(f *ast.FuncDecl, other string) string {
	var words []string
	for n, p := range parameters(f) {
		words = append(words, p.Name)
		if p.Name == "_" {
			words[n] = parameter(n)
		}
	}
	if list := f.Type.Params.List; len(list) > 0 {
		if _, variadic := list[len(list)-1].Type.(*ast.Ellipsis); variadic {
			words[len(words)-1] += "..."
		}
	}
	if f.Recv != nil {
		other = f.Recv.List[0].Names[0].Name + "." + other
	}
	other += "(" + strings.Join(words, ", ") + ")"
	if f.Type.Results == nil {
		return other + "; return"
	}
	return "return " + other
}

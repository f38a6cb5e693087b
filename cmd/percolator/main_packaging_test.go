package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

const repository = "../.."

func readRepository(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// instructions returns the instructions of the Dockerfile: the first word, and the rest in one
// line.
func instructions(t *testing.T) (out [][2]string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(readRepository(t, "Dockerfile")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	for _, text := range strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", " "), "\n") {
		word, rest, _ := strings.Cut(text, " ")
		out = append(out, [2]string{word, rest})
	}
	return out
}

// dockerfile returns what follows the last instruction of a kind that contains a text.
func dockerfile(t *testing.T, kind, with string) string {
	t.Helper()
	for _, i := range slices.Backward(instructions(t)) {
		if i[0] == kind && strings.Contains(i[1], with) {
			return i[1]
		}
	}
	t.Fatalf("the Dockerfile has no %s with %q", kind, with)
	return ""
}

// The command by which the image is built is one that go accepts, and what it makes is what is
// copied and run.
func TestDockerfileBuilds(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	line := dockerfile(t, "RUN", "go build")
	_, build, _ := strings.Cut(line, "go build ")
	script := `VERSION=v1.2.3 REVISION=abc DATE=2026-01-02T03:04:05Z; go build -n ` + build
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.Env = repository, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "-X main.stampedVersion=v1.2.3 -X main.stampedRevision=abc -X main.stampedDate=2026-01-02T03:04:05Z") {
		t.Errorf("%s: %v\n%.2000s", script, err, said)
	}
	made := regexp.MustCompile(`-o (\S+)`).FindStringSubmatch(build)
	copied := strings.Fields(dockerfile(t, "COPY", "--from=build"))
	if made == nil || copied[1] != made[1] {
		t.Errorf("%v is built and %v copied", made, copied)
	}
	var entry, command, health []string
	for kind, into := range map[string]*[]string{"ENTRYPOINT": &entry, "CMD": &command, "HEALTHCHECK": &health} {
		text := dockerfile(t, kind, "[")
		if err := json.Unmarshal([]byte(text[strings.Index(text, "["):]), into); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	if entry[0] != copied[2] || health[0] != copied[2] {
		t.Errorf("%s is there, %s and %s are run", copied[2], entry, health)
	}
	if found, rest, err := newRoot().Find(command); err != nil || len(rest) > 0 || found.CommandPath() != "percolator tso serve" {
		t.Errorf("CMD %v is no command: %v, %v", command, found, err)
	}
	if err := newRoot().ParseFlags(health[1:]); err != nil {
		t.Errorf("HEALTHCHECK %v: %v", health, err)
	}
	if user := dockerfile(t, "USER", ""); user != "65532:65532" { // a number: Kubernetes has to see that it is not root
		t.Errorf("USER %s", user)
	}
}

// The variables that builds set by the linker, which ignores others silently, are there.
func TestStampedVariables(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Dockerfile", ".goreleaser.yaml"} {
		stamps := regexp.MustCompile(`-X main\.(\w+)=`).FindAllStringSubmatch(readRepository(t, name), -1)
		if len(stamps) != 3 {
			t.Errorf("%s sets %d variables", name, len(stamps))
		}
		for _, stamp := range stamps {
			if object := file.Scope.Lookup(stamp[1]); object == nil || object.Kind != ast.Var {
				t.Errorf("%s sets main.%s, which does not exist", name, stamp[1])
			}
		}
	}
}

// What .dockerignore keeps away from the build is nothing that it needs.
func TestDockerignore(t *testing.T) {
	t.Parallel()
	var patterns []string
	for line := range strings.Lines(readRepository(t, ".dockerignore")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			patterns = append(patterns, line)
		}
	}
	ignored := func(name string) (by string) {
		for at := name; at != "."; at = path.Dir(at) {
			for _, p := range patterns {
				anywhere, deep := strings.CutPrefix(p, "**/")
				whole, _ := path.Match(p, at)
				base, _ := path.Match(anywhere, path.Base(at))
				if whole || deep && base {
					return p
				}
			}
		}
		return ""
	}
	if ignored("tso/server_test.go") == "" || ignored(".git/HEAD") == "" || ignored("docs/RUNBOOK.md") == "" {
		t.Error("nothing is ignored")
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,Module,GoFiles,EmbedFiles", "./cmd/percolator")
	list.Dir = repository
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"go.mod", "go.sum", "LICENSE"}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir                 string
			Module              *struct{ Main bool }
			GoFiles, EmbedFiles []string
		}
		if err := in.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		dir, err := filepath.Rel(root, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Concat(p.GoFiles, p.EmbedFiles) {
			files = append(files, path.Join(filepath.ToSlash(dir), name))
		}
	}
	if len(files) < 100 {
		t.Fatalf("%d files only", len(files))
	}
	for _, name := range files {
		if by := ignored(name); by != "" {
			t.Errorf("%s is needed and ignored by %q", name, by)
		}
	}
}

// What the workflows call is there: targets of the Makefile with what can be set, and actions by
// major version.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	makefile := readRepository(t, "Makefile")
	names, err := filepath.Glob(filepath.Join(repository, ".github", "workflows", "*.yml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		text := readRepository(t, filepath.Join(".github", "workflows", filepath.Base(name)))
		var calls []string
		for _, m := range regexp.MustCompile(`run: make (\S[^\n]*)|target: \[([^\]]*)\]`).FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(m[1], "${{") { // what that stands for is in the list
				calls = append(calls, strings.Split(m[1]+m[2], ", ")...)
			}
		}
		for _, call := range calls {
			for i, word := range strings.Fields(call) {
				want := "\n" + word + ":"
				if variable, _, set := strings.Cut(word, "="); i > 0 && set {
					want = "\n" + variable + " ?="
				}
				if !strings.Contains(makefile, want) {
					t.Errorf("%s calls make %s: the Makefile has no %q", filepath.Base(name), call, strings.TrimSpace(want))
				}
			}
		}
		for _, m := range regexp.MustCompile(`uses: (\S+)`).FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`^[\w-]+(/[\w-]+)+@v\d+$`).MatchString(m[1]) {
				t.Errorf("%s uses %s", filepath.Base(name), m[1])
			}
		}
		if !regexp.MustCompile(`(?m)^permissions:( \{\}$|\n  contents: read\n)`).MatchString(text) {
			t.Errorf("%s has more permissions for all jobs than reading", filepath.Base(name))
		}
	}
}

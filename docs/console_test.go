package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestConsole runs the commands of the blocks that are marked ```console, page by page and in
// order, with a shell, and compares what they print. What differs from run to run is replaced on
// both sides (normalized). Directives:
//
//	background=NAME until=TEXT [with="FLAGS"]   the command goes on in the background, without
//	                                            its log; FLAGS are added to it here
//	of=NAME                                     no command: what the one in the background has
//	                                            printed since
//	stop=NAME                                   afterwards that one is interrupted, and ends
//
// Addresses that a background command prints replace those in the page, in later commands, and the
// variables that it says should be exported are. So the page shows the usual ports and the test
// takes free ones.
func TestConsole(t *testing.T) {
	t.Parallel()
	programs := build(t)
	var ran atomic.Int64
	t.Run("pages", func(t *testing.T) {
		for _, p := range pages(t) {
			if !slices.ContainsFunc(p.blocks, block.isConsole) {
				continue
			}
			t.Run(filepath.Base(p.path), func(t *testing.T) {
				t.Parallel()
				s := newShell(t, programs)
				var edits []edit
				for _, b := range p.blocks {
					if b.isConsole() {
						edits = append(edits, edit{b, s.block(b)})
						ran.Add(1)
					}
				}
				s.end()
				if *update {
					p.rewrite(t, edits)
				}
			})
		}
	})
	if n := ran.Load(); n < 10 {
		t.Errorf("ran %d blocks", n)
	}
}

func (b block) isConsole() bool { return b.language == "console" }

// build compiles what pages run into a directory.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "./cmd/percolator", "./docs/examples/quickstart")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// shell runs the commands of one page.
type shell struct {
	t          *testing.T
	dir        string // where programs are
	env        []string
	replace    []string // addresses of the page, and what they are here
	background map[string]*process
}

func newShell(t *testing.T, programs string) *shell {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PERCOLATOR_") || strings.HasSuffix(strings.SplitN(v, "=", 2)[0], "_EMULATOR_HOST")
	})
	env = append(env, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+t.TempDir(), "TERM=dumb")
	return &shell{t: t, dir: programs, env: env, background: map[string]*process{}}
}

var goRun = regexp.MustCompile(`go run \./(?:cmd|docs/examples)/([a-z]+)`)

// block runs the commands of a block and returns the block as it is now.
func (s *shell) block(b block) string {
	s.t.Helper()
	place := fmt.Sprintf("%s:%d", b.page.path, b.first+1)
	if name := b.directive["of"]; name != "" {
		got := s.background[name].next(s.t, place, b.text())
		s.compare(place, "", b.text(), got)
		return got
	}
	var now strings.Builder
	for _, c := range commands(b.text()) {
		got := s.run(place, c, b.directive)
		s.compare(place, c.line, c.output, got)
		now.WriteString("$ " + c.line + "\n" + got)
	}
	if name := b.directive["stop"]; name != "" {
		s.background[name].interrupt(s.t)
		delete(s.background, name)
	}
	return now.String()
}

// command is one line after "$ ", with those that continue it, and what it printed.
type command struct{ line, output string }

func commands(text string) []command {
	var list []command
	open := "" // the end of a here document
	for line := range strings.Lines(text) {
		last := len(list) - 1
		switch rest, ok := strings.CutPrefix(line, "$ "); {
		case open != "":
			list[last].line += "\n" + strings.TrimSuffix(line, "\n")
			if strings.TrimSpace(line) == open {
				open = ""
			}
		case ok:
			list = append(list, command{line: strings.TrimSuffix(rest, "\n")})
			if m := hereDocument.FindStringSubmatch(rest); m != nil {
				open = m[1]
			}
		case last >= 0:
			list[last].output += line
		}
	}
	return list
}

var hereDocument = regexp.MustCompile(`<<'?([A-Z]+)'?`)

func (s *shell) run(place string, c command, said map[string]string) string {
	s.t.Helper()
	line := strings.NewReplacer(s.replace...).Replace(goRun.ReplaceAllString(c.line, "$1"))
	name := said["background"]
	if name == "" {
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
		defer cancel()
		cmd := s.command(ctx, line)
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.t.Fatalf("%s: %s: %v\n%s", place, c.line, err, out)
		}
		return string(out)
	}
	if !*update && said["with"] != "" {
		line += " " + said["with"]
	}
	p := &process{cmd: s.command(s.t.Context(), "exec "+line), grown: make(chan struct{}, 1)}
	p.cmd.Stdout, p.cmd.Stderr = p, &p.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.background[name] = p
	s.t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // of a test that failed
	got := p.until(s.t, place, said["until"])
	s.learn(c.output, got)
	return got
}

func (s *shell) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = root, s.env
	return cmd
}

var (
	address = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	export  = regexp.MustCompile(`(?m)^export (\w+=\S+)$`)
)

// learn takes over the addresses and variables that a command has announced.
func (s *shell) learn(shown, got string) {
	here := address.FindAllString(got, -1)
	for i, there := range address.FindAllString(shown, -1) {
		if i < len(here) {
			s.replace = append(s.replace, there, here[i])
		}
	}
	for _, m := range export.FindAllStringSubmatch(got, -1) {
		s.env = append(s.env, m[1])
	}
}

func (s *shell) compare(place, line, want, got string) {
	s.t.Helper()
	if w, g := normalized(want), normalized(got); w != g && !*update {
		s.t.Errorf("%s: $ %s\nprinted\n%s\nthe page says\n%s", place, line, g, w)
	}
}

func (s *shell) end() {
	s.t.Helper()
	for _, p := range s.background {
		p.interrupt(s.t)
	}
}

// process is a command in the background.
type process struct {
	cmd *exec.Cmd
	log bytes.Buffer // what goes to the standard error, which pages leave out; read when the process has ended

	mu    sync.Mutex
	out   bytes.Buffer
	seen  int // what next has returned
	grown chan struct{}
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.grown <- struct{}{}:
	default:
	}
	return p.out.Write(b)
}

// until waits until the process has printed a line with the text, after what was returned before.
func (p *process) until(t *testing.T, place, text string) string {
	t.Helper()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for {
		p.mu.Lock()
		fresh := p.out.String()[p.seen:]
		at := strings.Index(fresh, text)
		end := 0
		if at >= 0 {
			end = at + strings.IndexByte(fresh[at:], '\n') + 1
		}
		if at >= 0 && end > at {
			p.seen += end
			p.mu.Unlock()
			return fresh[:end]
		}
		p.mu.Unlock()
		select {
		case <-p.grown:
		case <-limit.C:
			t.Fatalf("%s: the command in the background has not printed %q but\n%s", place, text, fresh)
		}
	}
}

// next waits for as many lines as the page shows.
func (p *process) next(t *testing.T, place, shown string) string {
	t.Helper()
	var got string
	for range strings.Count(shown, "\n") {
		got += p.until(t, place, "\n")
	}
	return got
}

func (p *process) interrupt(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v: %v\n%s%s", p.cmd.Args, err, p.out.String(), p.log.String())
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("%v does not end", p.cmd.Args)
		_ = p.cmd.Process.Kill()
	}
}

// What differs from run to run, in the order in which it is replaced.
var changing = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "id"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?`), "time"},
	{regexp.MustCompile(`\b\d{15,19}\b`), "ts"},
	{address, "address"},
	{regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:s|ms|µs)\b`), "duration"},
	{regexp.MustCompile(`go1\.[0-9.]+|\(devel\)|v0\.0\.0-\S+`), "version"},
	{regexp.MustCompile(`\b(?:none|open|ended)\b`), "session"}, // a process that has just begun, or just died
}

var blanks = regexp.MustCompile(` {2,}|-{3,}|─{2,}`)

// normalized replaces what differs: each timestamp, say, by <ts1>, <ts2> … in the order of their
// first appearance, so that equal ones stay equal. Runs of blanks become one, as the width of
// columns depends on what was replaced.
func normalized(text string) string {
	for _, c := range changing {
		names := map[string]string{}
		text = c.pattern.ReplaceAllStringFunc(text, func(found string) string {
			if slices.Contains([]string{"duration", "time", "version", "session"}, c.name) { // may be equal by chance
				return "<" + c.name + ">"
			}
			if names[found] == "" {
				names[found] = fmt.Sprintf("<%s%d>", c.name, len(names)+1)
			}
			return names[found]
		})
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(blanks.ReplaceAllString(line, "  "))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// edit is a block and what stands in it from now on.
type edit struct {
	block block
	text  string
}

// rewrite puts the blocks' new texts into the page.
func (p *page) rewrite(t *testing.T, edits []edit) {
	t.Helper()
	lines := slices.Clone(p.lines)
	for _, e := range slices.Backward(edits) {
		var fresh []string
		for line := range strings.Lines(e.text) {
			fresh = append(fresh, e.block.indent+strings.TrimRight(line, " \n"))
		}
		lines = slices.Replace(lines, e.block.first, e.block.last, fresh...)
	}
	if err := os.WriteFile(filepath.Join(root, p.path), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

package docs_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/emulators"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// TestConsoleBlocksPrintWhatPagesSay runs the commands of the blocks that are marked ```console,
// page by page and in order, with a shell, and compares what they print. What differs from run to
// run is replaced on both sides (normalized). Directives:
//
//	background=NAME until=TEXT [with="FLAGS"]   the command goes on in the background, without
//	                                            its log; FLAGS are added to it here
//	background=NAME logged=TEXT [with="FLAGS"]  the same, until its log has the text
//	of=NAME                                     no command: what the one in the background has
//	                                            printed since
//	within=DURATION                             the commands are repeated until they print what
//	                                            the page says, or for that long
//	stop=NAME                                   afterwards that one is interrupted, and ends
//	needs=NAME                                  the block runs in a shell of its own, with the
//	                                            others that need it, and only where NAME is
//	                                            installed
//
// Addresses that a background command prints replace those in the page, in later commands, and the
// variables that it says should be exported are. So the page shows the usual ports and the test
// takes free ones. What a command exports, later commands have.
func TestConsoleBlocksPrintWhatPagesSay(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	programs := build(t)
	var ran atomic.Int64
	t.Run("pages", func(t *testing.T) {
		var running sync.WaitGroup
		defer running.Wait()
		for _, p := range pages(t) {
			if !slices.ContainsFunc(p.blocks, block.isConsole) {
				continue
			}
			// Not by t.Parallel: pages wait more than they compute.
			running.Go(func() {
				t.Run(filepath.Base(p.path), func(t *testing.T) {
					shells, edits := map[string]*shell{}, []edit(nil)
					for _, b := range p.blocks {
						needs := b.directive["needs"]
						if !b.isConsole() || !installed(t, needs) {
							continue
						}
						if shells[needs] == nil {
							shells[needs] = newShell(t, programs, needs)
						}
						edits = append(edits, edit{b, shells[needs].block(b)})
						ran.Add(1)
					}
					for _, s := range shells {
						s.end()
					}
					if *update {
						p.rewrite(t, edits)
					}
				})
			})
		}
	})
	if n := ran.Load(); n < 10 {
		t.Errorf("ran %d blocks", n)
	}
}

func (b block) isConsole() bool { return b.language == "console" }

// tools are the programs behind what a block can need.
var tools = map[string][]string{"gcloud": {"gcloud", "cbt"}}

func installed(t *testing.T, needs string) bool {
	t.Helper()
	for _, tool := range tools[needs] {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("NOT RUN, what needs %s: %v", needs, err)
			return false
		}
	}
	if _, err := emulators.Find(os.Getenv); needs == "gcloud" && err != nil {
		t.Logf("NOT RUN, what needs %s: %v", needs, err)
		return false
	}
	return true
}

// build compiles what pages run into a directory.
func build(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir, err := fixture.Programs(ctx, root, "./cmd/percolator", "./docs/examples/quickstart", "./docs/examples/orders", "./docs/examples/phones", "./docs/examples/stars")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// shell runs the commands of one page.
type shell struct {
	t          *testing.T
	env        []string
	exported   string   // a script that exports what commands have exported
	replace    []string // addresses of the page, and what they are here
	background map[string]*process
	started    []string // their names
}

func newShell(t *testing.T, programs, needs string) *shell {
	t.Helper()
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PERCOLATOR_") || strings.HasSuffix(strings.SplitN(v, "=", 2)[0], "_EMULATOR_HOST")
	})
	home := t.TempDir()
	env = append(env, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+home, "TERM=dumb")
	s := &shell{t: t, env: env, exported: filepath.Join(home, "exported"), background: map[string]*process{}}
	write(t, s.exported, "")
	if needs != "" { // its servers cannot tell which port they took
		s.replace = []string{"localhost:8086", freePort(t, "localhost"), "127.0.0.1:7070", freePort(t, "127.0.0.1")}
	}
	return s
}

// freePort returns an address that nothing listens on. No port 0 and no outgoing connection takes
// one of these ports meanwhile: systems draw theirs from above.
func freePort(t *testing.T, host string) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("%s:%d", host, 20000+rand.IntN(10000))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port found")
	return ""
}

var goRun = regexp.MustCompile(`go run \./(?:cmd|docs/examples)/([a-z]+)`)

// block runs the commands of a block and returns the block as it is now.
func (s *shell) block(b block) string {
	s.t.Helper()
	place := fmt.Sprintf("%s:%d", b.page.path, b.first+1)
	if name := b.directive["of"]; name != "" {
		got := s.background[name].out.next(s.t, place, b.text())
		s.compare(place, "", b.text(), got)
		return got
	}
	var now strings.Builder
	for _, c := range commands(b.text()) {
		got := s.run(place, c, b.directive)
		for late := s.late(b); !late() && normalized(got) != normalized(c.output); {
			got = s.run(place, c, b.directive)
		}
		s.compare(place, c.line, c.output, got)
		now.WriteString("$ " + c.line + "\n" + got)
	}
	if name := b.directive["stop"]; name != "" {
		s.background[name].interrupt(s.t)
		delete(s.background, name)
	}
	return now.String()
}

// late tells when a block has taken as long as it may.
func (s *shell) late(b block) func() bool {
	within, err := time.ParseDuration(cmp.Or(b.directive["within"], "0s"))
	if err != nil {
		s.t.Fatal(err)
	}
	started := time.Now()
	return func() bool { return time.Since(started) >= within }
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
	name, here := said["background"], strings.NewReplacer(s.replace...)
	line := here.Replace(goRun.ReplaceAllString(c.line, "$1"))
	if name == "" {
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
		defer cancel()
		cmd := s.command(ctx, line+"\nstatus=$?; export -p >"+s.exported+"; exit $status")
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.t.Fatalf("%s: %s: %v\n%s", place, c.line, err, out)
		}
		return string(out)
	}
	if said["with"] != "" && (!*update || said["needs"] != "") {
		line += " " + here.Replace(said["with"])
	}
	p := &process{cmd: s.command(s.t.Context(), "exec "+line), out: newOutput(), log: newOutput()}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.log
	// gcloud starts the emulator as a child, which a terminal interrupts with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: said["needs"] != ""}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.background[name], s.started = p, append(s.started, name)
	s.t.Cleanup(func() { _ = p.signal(syscall.SIGKILL) }) // of a test that failed
	if said["logged"] != "" {
		p.log.until(s.t, place, said["logged"])
		return ""
	}
	got := p.out.until(s.t, place, said["until"])
	s.learn(c.output, got)
	return got
}

func (s *shell) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", ". "+s.exported+"\n"+line)
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

// end ends what still runs, the servers after their clients.
func (s *shell) end() {
	s.t.Helper()
	for _, name := range slices.Backward(s.started) {
		if p := s.background[name]; p != nil {
			p.interrupt(s.t)
			delete(s.background, name)
		}
	}
}

// process is a command in the background.
type process struct {
	cmd *exec.Cmd
	out *output
	log *output // the standard error, which pages leave out
}

// signal sends a signal to the process, and to its children if it leads a group.
func (p *process) signal(sig syscall.Signal) error {
	if p.cmd.ProcessState != nil {
		return os.ErrProcessDone
	}
	if p.cmd.SysProcAttr.Setpgid {
		return syscall.Kill(-p.cmd.Process.Pid, sig)
	}
	return p.cmd.Process.Signal(sig)
}

// output is what a process prints.
type output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	seen  int // what until has returned
	grown chan struct{}
}

func newOutput() *output { return &output{grown: make(chan struct{}, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.grown <- struct{}{}:
	default:
	}
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// until waits until the process has printed a line with the text, after what was returned before.
func (o *output) until(t *testing.T, place, text string) string {
	t.Helper()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for {
		fresh := o.String()[o.seen:]
		if at := strings.Index(fresh, text); at >= 0 {
			if end := strings.IndexByte(fresh[at:], '\n'); end >= 0 {
				o.seen += at + end + 1
				return fresh[:at+end+1]
			}
		}
		select {
		case <-o.grown:
		case <-limit.C:
			t.Fatalf("%s: the command in the background has not printed %q but\n%s", place, text, fresh)
		}
	}
}

// next waits for as many lines as the page shows.
func (o *output) next(t *testing.T, place, shown string) string {
	t.Helper()
	var got string
	for range strings.Count(shown, "\n") {
		got += o.until(t, place, "\n")
	}
	return got
}

func (p *process) interrupt(t *testing.T) {
	t.Helper()
	if err := p.signal(syscall.SIGINT); err != nil {
		t.Error(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		ended := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if err != nil && !(p.cmd.SysProcAttr.Setpgid && ended.Signal() == syscall.SIGINT) { // gcloud dies of it
			t.Errorf("%v: %v\n%s%s", p.cmd.Args, err, p.out, p.log)
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("%v does not end", p.cmd.Args)
		_ = p.signal(syscall.SIGKILL)
	}
}

// What differs from run to run, in the order in which it is replaced.
var changing = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "id"},
	{regexp.MustCompile(`\d{4}[-/]\d\d[-/]\d\d[-T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?`), "time"},
	{regexp.MustCompile(`\b\d{15,19}\b`), "ts"},
	{regexp.MustCompile(`"\\x00\\x00(?:[^"\\]|\\.)*P"`), "record"},
	{regexp.MustCompile(`(?:127\.0\.0\.1|localhost):\d+`), "address"},
	{regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:s|ms|µs)\b`), "duration"},
	{regexp.MustCompile(`go1\.[0-9.]+|\(devel\)|v0\.0\.0-\S+`), "version"},
	{regexp.MustCompile(`\b(?:none|open|ended)\b`), "session"}, // a process that has just started, or just died
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

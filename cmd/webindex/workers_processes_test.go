//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// asProgram makes this binary the program itself.
const asProgram = "WEBINDEX_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(fixture.RunWaiting(m))
}

// processLimit bounds what a process is waited for. It is only reached when something is broken.
const processLimit = 2 * time.Minute

// Three worker processes share the work; one of them is killed in the middle of the crawl, and
// another one joins. In the end the index is what the pages say.
func TestWorkerProcesses(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	s := startStore(t)
	s.run("init")
	worker := func() *process {
		p := s.start("worker", "--progress", "10ms")
		p.await(regexp.MustCompile(`joined webindex/webindex\n`), nil)
		return p
	}
	victim, second, third := worker(), worker(), worker()
	loading := s.start("load", "--input", manyPages(t, 0))
	victim.awaitRuns(3)
	if err := victim.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if status := victim.wait(); status != -1 {
		t.Fatalf("the victim ended with status %d before it was killed", status)
	}
	newcomer := worker()
	if status := loading.wait(); status != 0 {
		t.Fatalf("load: status %d", status)
	}
	// Changed pages are loaded until each worker has got a share of the work.
	survivors := map[string]*process{"second": second, "third": third, "newcomer": newcomer}
	idle := func(p *process) bool { return p.runs() == 0 }
	for version := 1; version == 1 || slices.ContainsFunc(slices.Collect(maps.Values(survivors)), idle); version++ {
		s.run("load", "--input", manyPages(t, version))
		s.run("worker", "--until-idle")
	}
	for _, p := range survivors {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for name, p := range survivors {
		if status := p.wait(); status != 0 {
			t.Errorf("the %s worker ended with status %d after SIGTERM", name, status)
		}
		t.Logf("the %s worker: %d runs", name, p.runs())
	}
	t.Logf("the victim: %d runs", victim.runs())
	summary := filepath.Join(t.TempDir(), "summary.json")
	s.run("verify", "--summary", summary)
	expect(t, summaries(t, summary)[0], map[string]float64{"differences": 0, "documents": sitePages, "clusters": sitePages - siteTwins})
}

const (
	sitePages = 100
	siteTwins = 10 // pages with the content of another one
)

// manyPages is a directory of pages. They link to earlier ones only, so that ranks converge soon.
// In another version every fourth of them is another one.
func manyPages(t *testing.T, version int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range sitePages {
		n := i % (sitePages - siteTwins)
		text := fmt.Sprintf("page number %d", n)
		if n%4 == 0 {
			text += fmt.Sprintf(" in version %d", version)
		}
		link := func(to int) string { return fmt.Sprintf("%d.html number %d", to, to) }
		html := webtest.Page(fmt.Sprint("Page ", n), text, link(n/10), link(n/3))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.html", i)), []byte(html), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sharedStore is an emulator and an oracle in this process that others use.
type sharedStore struct {
	testing.TB
	env []string
}

func startStore(t testing.TB) *sharedStore {
	t.Helper()
	bigtable, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bigtable.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- oracle.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("oracle: %v", err)
		}
	})
	return &sharedStore{t, append(os.Environ(), asProgram+"=1",
		"BIGTABLE_EMULATOR_HOST="+bigtable.Addr(), "PERCOLATOR_TSO_ADDR="+l.Addr().String())}
}

// run runs the program to its end, and fails the test unless that is a good one.
func (s *sharedStore) run(args ...string) {
	s.Helper()
	if status := s.start(args...).wait(); status != 0 {
		s.Fatalf("%q: status %d", args, status)
	}
}

// process is the program in a process of its own.
type process struct {
	testing.TB
	cmd    *exec.Cmd
	ended  chan struct{}
	status int

	mu   sync.Mutex
	said []byte        // on standard output and standard error
	more chan struct{} // closed when it says more
}

func (s *sharedStore) start(args ...string) *process {
	s.Helper()
	binary, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), processLimit)
	p := &process{TB: s.TB, cmd: exec.CommandContext(ctx, binary, args...), ended: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = s.env, p, p
	if err := p.cmd.Start(); err != nil {
		cancel()
		s.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		var exit *exec.ExitError
		if err := p.cmd.Wait(); errors.As(err, &exit) {
			p.status = exit.ExitCode()
		} else if err != nil {
			p.status = -2
		}
	}()
	s.Cleanup(func() {
		cancel()
		<-p.ended
		if s.Failed() {
			s.Logf("%q ended with status %d and said:\n%s", args, p.status, p.said)
		}
	})
	return p
}

// Write takes what the process says.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, b...)
	close(p.more)
	p.more = make(chan struct{})
	return len(b), nil
}

// wait waits for the end of the process and returns its exit status, -1 if a signal has ended it.
func (p *process) wait() int {
	<-p.ended
	return p.status
}

// await waits until the process has said something that ok likes; nil likes everything.
func (p *process) await(said *regexp.Regexp, ok func(last []string) bool) {
	p.Helper()
	for {
		p.mu.Lock()
		all, more := said.FindAllStringSubmatch(string(p.said), -1), p.more
		p.mu.Unlock()
		if len(all) > 0 && (ok == nil || ok(all[len(all)-1])) {
			return
		}
		select {
		case <-more:
		case <-p.ended:
			p.Fatalf("the process ended before it said %s", said)
		}
	}
}

var runsLine = regexp.MustCompile(`worker: (\d+) observer runs`)

// awaitRuns waits until a worker says that it has done as many runs.
func (p *process) awaitRuns(n int) {
	p.Helper()
	p.await(runsLine, func(last []string) bool { runs, err := strconv.Atoi(last[1]); return err == nil && runs >= n })
}

// runs is how many runs a worker has said that it has done.
func (p *process) runs() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := runsLine.FindAllSubmatch(p.said, -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(string(all[len(all)-1][1]))
	if err != nil {
		p.Error(err)
	}
	return n
}

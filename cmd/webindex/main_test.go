package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/search"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// webindex runs the program and returns its exit status and what it printed.
func webindex(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, errs := output(t), output(t)
	status = run(ctx, args, out, errs)
	return status, read(t, out), read(t, errs)
}

func output(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func read(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// summaries reads a summary file.
func summaries(t *testing.T, path string) (list []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var s map[string]any
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		list = append(list, s)
	}
	return list
}

func expect(t *testing.T, s map[string]any, want map[string]float64) {
	t.Helper()
	for key, n := range want {
		if s[key] != n {
			t.Errorf("%s is %v, want %v", key, s[key], n)
		}
	}
}

// site is a directory of pages: two with the same content, and one that both of these link to.
func site(t *testing.T, change string) string {
	t.Helper()
	dir := t.TempDir()
	for name, html := range map[string]string{
		"a.html":    webtest.Page("Twin", "equal", "hub.html the hub"),
		"b.html":    webtest.Page("Twin", "equal", "hub.html the hub"),
		"hub.html":  webtest.Page("Hub", "in the middle"+change, "b.html second twin"),
		"other.htm": webtest.Page("Other", "alone"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(html), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDemoSummarizesEachInput(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "summary.json")
	before, after := site(t, ""), site(t, " changed")
	status, stdout, stderr := webindex(t, "demo", "--exit", "--verify", "--workers", "2", "--summary", file,
		"--input", before, "--input", before, "--input", after)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	list := summaries(t, file)
	if len(list) != 3 {
		t.Fatalf("%d summaries, want 3", len(list))
	}
	index := map[string]float64{"pages": 4, "documents": 4, "clusters": 3, "canonical": 3, "links": 3, "differences": 0}
	for _, s := range list {
		expect(t, s, index)
	}
	expect(t, list[0], map[string]float64{"changed": 4, "unchanged": 0})
	expect(t, list[1], map[string]float64{"changed": 0, "unchanged": 4, "transactions": 0, "observerRuns": 0, "notifications": 0})
	expect(t, list[2], map[string]float64{"changed": 1, "unchanged": 3})
	if runs := list[0]["observers"].(map[string]any)["process"].(float64); runs < 1 || runs > 4 { // in batches
		t.Errorf("process ran %v times for 4 pages", runs)
	}
	for i, searchable := range []float64{3, 0, 1} {
		latency := list[i]["latencyMillis"].(map[string]any)
		if latency["pages"] != searchable {
			t.Errorf("input %d made %v pages searchable, want %v", i, latency["pages"], searchable)
		}
		if i != 1 && latency["p50"].(float64) <= 0 {
			t.Errorf("input %d: latency %v", i, latency)
		}
	}
	if n := strings.Count(stdout, "load to searchable"); n != 2 || strings.Count(stdout, "differences") != 3 {
		t.Errorf("printed:\n%s", stdout)
	}
}

func TestDemoGoesOnAfterBadInput(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "summary.json")
	absent := filepath.Join(t.TempDir(), "absent.warc.gz")
	status, _, stderr := webindex(t, "demo", "--exit", "--verify", "--summary", file, "--input", absent, "--input", site(t, ""))
	if status != 1 || !strings.Contains(stderr, absent) {
		t.Errorf("status %d, want 1 and the name of the file in: %s", status, stderr)
	}
	list := summaries(t, file)
	expect(t, list[0], map[string]float64{"pages": 0, "badInputs": 1, "differences": 0})
	expect(t, list[1], map[string]float64{"pages": 4, "badInputs": 0, "differences": 0})
}

// TestDemo does what a newcomer does: without an input it indexes the bundled crawl; then they
// search it, and end it.
func TestDemo(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	stdout, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	file := filepath.Join(t.TempDir(), "summary.json")
	ended := make(chan int, 1)
	go func() {
		defer writer.Close()
		ended <- run(ctx, []string{"demo", "--verify", "--addr", "127.0.0.1:0", "--summary", file}, writer, output(t))
	}()
	address := awaitAddress(t, stdout)
	if body := fetch(t, address+"/?q=lighthouse"); !strings.Contains(body, "<h2>") || !strings.Contains(body, "Linked as") {
		t.Errorf("no lighthouse was found with its anchor texts:\n%s", body)
	}
	interrupt()
	if status := <-ended; status != 0 {
		t.Errorf("status %d after Ctrl-C, want 0", status)
	}
	s := summaries(t, file)[0]
	expect(t, s, map[string]float64{"differences": 0, "badInputs": 0})
	if s["documents"].(float64) <= s["clusters"].(float64) || s["redirects"].(float64) == 0 || s["links"].(float64) == 0 {
		t.Errorf("a crawl without duplicates, redirects or links: %v", s)
	}
}

// awaitAddress reads what a server prints until it says where it listens, and lets the rest be
// printed.
func awaitAddress(t *testing.T, stdout *os.File) string {
	t.Helper()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if m := regexp.MustCompile(`http://\S+`).FindString(lines.Text()); m != "" {
			go io.Copy(io.Discard, stdout) //nolint:errcheck // ends with the program
			return m
		}
	}
	t.Fatal("the search page was not served")
	return ""
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCommandsOnARunningStore goes through all commands as a person would, with a store that is not
// theirs. It sets an environment variable, as such a person would, so it cannot run beside other
// tests.
func TestCommandsOnARunningStore(t *testing.T) {
	fixture.Long(t)
	store := runStore(t)
	file := filepath.Join(t.TempDir(), "summary.json")
	do := func(wantStatus int, args ...string) (stdout, stderr string) {
		t.Helper()
		status, stdout, stderr := webindex(t, append(args, "--summary", file)...)
		if status != wantStatus {
			t.Fatalf("%q: status %d, want %d: %s", args, status, wantStatus, stderr)
		}
		return stdout, stderr
	}
	last := func() map[string]any { return summaries(t, file)[0] }

	if _, stderr := do(1, "verify"); !strings.Contains(stderr, "schema") {
		t.Errorf("without tables: %s", stderr)
	}
	store.quickStart(t) // whose tables are others
	do(0, "init")
	do(0, "init")
	do(0, "load", "--input", site(t, ""))
	expect(t, last(), map[string]float64{"pages": 4, "changed": 4, "earlier": 0})
	if n := last()["transactions"].(float64); n < 1 || n > 4 {
		t.Errorf("%v transactions for 4 pages", n)
	}
	do(1, "verify") // nothing has been processed
	do(0, "worker", "--until-idle")
	expect(t, last(), map[string]float64{"documents": 4, "clusters": 3, "canonical": 3, "links": 3, "pages": 0})
	stdout, _ := do(0, "verify")
	expect(t, last(), map[string]float64{"differences": 0, "documents": 4})
	if strings.Contains(stdout, "recomputed") {
		t.Errorf("printed differences although there are none:\n%s", stdout)
	}
	do(1, "load", "--input", site(t, ""), filepath.Join(t.TempDir(), "absent"))
	if _, stderr := do(1, "load"); !strings.Contains(stderr, "nothing to load") {
		t.Errorf("load without input: %s", stderr)
	}

	do(0, "delete", "http://LOCALHOST/b.html#top")
	expect(t, last(), map[string]float64{"deleted": 1, "missing": 0})
	do(0, "worker", "--until-idle")
	do(0, "verify")
	expect(t, last(), map[string]float64{"differences": 0, "documents": 3})
	if _, stderr := do(1, "delete", "http://localhost/b.html", "http://localhost/other.htm", "no URL"); !strings.Contains(stderr, "b.html") {
		t.Errorf("a page that is not there: %s", stderr)
	}
	expect(t, last(), map[string]float64{"deleted": 1, "missing": 2})
	do(0, "worker", "--until-idle")

	store.plant(t)
	stdout, _ = do(1, "verify")
	expect(t, last(), map[string]float64{"differences": 1})
	if !strings.Contains(stdout, "received rank of http://localhost/other.htm: stored 99, recomputed nothing") {
		t.Errorf("the difference was not printed:\n%s", stdout)
	}

	stdout, stderr := do(1, "serve", "--addr", "256.0.0.1:0")
	if stdout != "" || stderr == "" {
		t.Errorf("serving on an impossible address: %s%s", stdout, stderr)
	}
	if status, _, _ := webindex(t, "verify", "--summary", t.TempDir()); status != 1 {
		t.Errorf("a summary that cannot be written: status %d", status)
	}
	if status, _, stderr := webindex(t, "verify", "--tso", ""); status != 1 || !strings.Contains(stderr, "PERCOLATOR_TSO_ADDR") {
		t.Errorf("without an oracle: status %d, %s", status, stderr)
	}
}

// runningStore is an emulator and an oracle that listen on loopback.
type runningStore struct{ oracle tso.Oracle }

func runStore(t *testing.T) *runningStore {
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
	t.Setenv("BIGTABLE_EMULATOR_HOST", bigtable.Addr())
	t.Setenv("PERCOLATOR_TSO_ADDR", l.Addr().String())
	return &runningStore{oracle}
}

// quickStart creates the tables of docs/QUICKSTART.md.
func (s *runningStore) quickStart(t *testing.T) {
	t.Helper()
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "notes", Observed: []string{"text"}}, {Name: "tags"}, {Name: "accounts"}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fixture.Must(t, percolator.CreateSchema(ctx, "webindex", "webindex", schema))
}

// plant makes one thing wrong.
func (s *runningStore) plant(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := percolator.NewClient(ctx, percolator.Config{Project: "webindex", Instance: "webindex", Oracle: s.oracle})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		const url = "http://localhost/other.htm"
		return index.AccountOf(url).Set(tx, index.Block(url), index.Account{Received: 99})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a command line or a file contains reaches the terminal only in a form that it does not obey.
func TestErrorsArePrintable(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"\x1b[2J"}, {"--\u202eflag"}, {"load", "--tso", "\x9b31m", "--input", "\x1b]0;title\a"}, {"serve", "--project", "\r", "--instance", "i"}} {
		status, _, stderr := webindex(t, args...)
		if status != 1 || text.Lines(stderr) != stderr {
			t.Errorf("%q: status %d, %q", args, status, stderr)
		}
	}
}

// accepting counts the connections that a listener has accepted.
type accepting struct {
	net.Listener
	n atomic.Int32
}

func (l *accepting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}

// One client cannot take up more of the search page's process than its connections.
func TestSearchConnections(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &accepting{Listener: tcp}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&app{stdout: output(t)}).serve(ctx, l, search.NewServer(nil, nil)) }() // a style sheet needs no client
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET /style.css HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	answered := func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200 OK"))); err != nil {
			t.Fatal(err)
		}
	}
	first := dial()
	answered(first)
	for range searchConnections - 1 {
		answered(dial())
	}
	next := dial()
	if n := l.n.Load(); n != 256 {
		t.Errorf("%d connections at once", n)
	}
	_ = first.Close()
	answered(next)
}

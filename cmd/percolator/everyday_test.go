package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// TestEverydaySession: a cell as messages write it is an argument, what was mistyped has a
// suggestion, a refused value names the row that has it, and a list is printed again and again.
func TestEverydaySession(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEverydaySession)
}

func testEverydaySession(t *testing.T) {
	s := session{c: newCluster(t, cellSchema())}
	s.run(exitOK, "set", `documents/"a"/"url"`, "http://a.example/")
	s.run(exitOK, "get", `documents/"a"/"url"`)
	s.run(exitConflict, "set", "documents", "b", "url", "http://a.example/")
	s.run(exitUsage, "gett", "documents", "a")
	s.run(exitUsage, "notify", "rety")
	s.run(exitUsage, "get", "documents", "a", "--as-off", "1m")
	s.run(exitUsage, "get", "document", "a")
	s.run(exitFailure, "get", "documents", "a", "--instance", "other")
	s.run(exitUsage, "schema", "verify", "documents", "by-ur")
	s.run(exitOK, "gc", "hold", "ls", "--watch=1s", "--timeout", "2500ms")
	s.run(exitOK, "gc", "hold", "ls", "--watch", "--timeout", "2500ms", "-o", "json")
	s.run(exitUsage, "gc", "hold", "ls", "--watch=-1s")
	s.run(exitUsage, "gc", "hold", "ls", "--watch", "1s")
	s.run(exitUsage, "notify", "ls", "--watch", "1s")
	s.compare("everyday.txt")
}

// A mistyped name of a command, a column, an observed column or a queue has a suggestion, whichever
// command it is an argument of.
func TestMistypedNames(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "documents", Observed: []string{"contents"}}}})
		cl.must(exitOK, "set", "documents", "a", "contents", "x")
		for _, c := range []struct{ args, want string }{
			{"help gett", `did you mean "get"?`},
			{"help notify rety", `did you mean "retry"?`},
			{"get documents a content", `did you mean "contents"?`},
			{"observers backfill documents content index", `did you mean "contents"?`},
			{"observers forget documents content index --yes", `did you mean "contents"?`},
			{"notify retry documents a content index", `did you mean "contents"?`},
			{"check --only worker", `did you mean "workers"?`},
			{"get documents a -o jsn", `did you mean "json"?`},
		} {
			r := cl.run(strings.Fields(c.args)...)
			if !strings.Contains(r.stderr, c.want) || r.code == exitOK {
				t.Errorf("percolator %s: exit status %d, %q, want %s", c.args, r.code, r.stderr, c.want)
			}
			if strings.Contains(r.stderr, "the same command resumes there") {
				t.Errorf("percolator %s: it has not begun, and will not resume: %q", c.args, r.stderr)
			}
		}
	})
}

// Rows, columns, parked cells, observers and dead letters are completed with what the instance has.
func TestCompletionFromTheInstance(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCompletionFromTheInstance)
}

func testCompletionFromTheInstance(t *testing.T) {
	cl := newCluster(t, cellSchema())
	document := func(row, column string) percolator.Cell {
		return percolator.Cell{Table: "documents", Row: row, Column: column}
	}
	w := cl.work(observers.Config{MaxAttempts: 1, ReportInterval: time.Second})
	w.broken.Store(true)
	cl.set(map[percolator.Cell]string{document("com.example/", "title"): "x", document("com.example/", "url"): "u", document("org example", "contents"): "y"})
	w.idle()
	time.Sleep(10 * time.Second) // the worker has reported
	taken := cl.must(exitOK, "gc", "hold", "take", "-o", "json").out
	hold := regexp.MustCompile(`"id": "([^"]+)"`).FindStringSubmatch(taken)[1]
	instance := []string{"--project", cl.project, "--instance", cl.instance, "--tso", cl.tso}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "documents", ""}, `com.example/ "org example"`},
		{[]string{"get", "documents", "com"}, "com.example/"},
		{[]string{"get", "documents", "com.example/", ""}, "title url"},
		{[]string{"get", "nowhere", ""}, ""},
		{[]string{"row", "documents", "x"}, ""},
		{[]string{"row", "documents", "com.example/", "--column", ""}, "title url"},
		{[]string{"scan", "documents", "--index", ""}, "by-url"},
		{[]string{"schema", "show", "--name", ""}, ""},
		{[]string{"gc", "hold", "release", ""}, hold},
		{[]string{"gc", "hold", "release", hold, ""}, ""},
		{[]string{"notify", "retry", ""}, "documents"},
		{[]string{"notify", "retry", "documents", "", ""}, ""},
		{[]string{"notify", "retry", "documents", ""}, `"org example"`},
		{[]string{"notify", "retry", "documents", `"org example"`, "contents", ""}, "index"},
		{[]string{"observers", "forget", "documents", ""}, "contents"},
		{[]string{"observers", "forget", "documents", "contents", ""}, `index "re count"`},
	} {
		last := len(c.args) - 1
		if strings.HasPrefix(c.args[last-1], "--") {
			last-- // the flag whose value is completed
		}
		named := instance
		if c.args[0] == "schema" { // which needs no oracle
			named = instance[:4]
		}
		words := slices.Concat([]string{"__complete"}, c.args[:last], named, c.args[last:])
		if got := completions(cl.must(exitOK, words...).out); got != c.want {
			t.Errorf("%q is completed by %q, want %q", c.args, got, c.want)
		}
	}
}

// A queue of which nobody takes the columns is one finding, however many partitions it has.
func TestCheckNamesAQueueOnce(t *testing.T) {
	t.Parallel()
	queue := percolator.Table{Name: "exports"}
	for _, n := range "01234567" {
		queue.Weak = append(queue.Weak, "export-00"+string(n))
	}
	found := judgeObservers(&percolator.Schema{Tables: []percolator.Table{queue}}, nil)
	if len(found) != 1 || found[0].Saw != "no worker takes 8 columns of exports (export-000, export-001, export-002, …): notifications wait" {
		t.Errorf("%+v", found)
	}
	silent := judgeObservers(&percolator.Schema{Tables: []percolator.Table{queue}}, []admin.WorkerInfo{{Name: "w"}})
	if len(silent) != 1 {
		t.Errorf("of a worker that does not say what it takes: %+v", silent)
	}
}

// Where no emulator answers, a command says so, with the address, and not that a schema may be
// missing.
func TestWrongEmulatorHost(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	fixture.Must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fixture.Must(t, err)
	oracle := l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() { stop(); fixture.Must(t, <-ended) })
	for _, args := range [][]string{
		{"get", "documents", "a"}, {"schema", "show"}, {"schema", "apply", webSchema, "--yes"}, {"init"}, {"tso", "serve", "--listen", "127.0.0.1:0"}, {"check"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			silent, waited := silentPort(t)
			defer waited()
			for _, c := range []struct {
				address, says string
				code          int
			}{
				{"127.0.0.1:1", "dial tcp 127.0.0.1:1: ", exitUnavailable},
				{"127.0.0.1", "BIGTABLE_EMULATOR_HOST=127.0.0.1: no address HOST:PORT", exitUsage},
				{silent, "no emulator at BIGTABLE_EMULATOR_HOST=" + silent, exitUnavailable},
			} {
				p := start(t, append(onBigtable(c.address), tsoAddrEnv+"="+oracle, "PERCOLATOR_PROJECT=p", "PERCOLATOR_INSTANCE=i"), args...)
				code := p.wait(t)
				said := p.stderr.String() + p.stdout.String()
				if code != c.code || !strings.Contains(said, c.says) || strings.Contains(said, "schema") {
					t.Errorf("exit status %d\n%s", code, said)
				}
			}
			if took := waited(); took == 0 || took > 3*time.Second {
				t.Errorf("it waited %v for an answer", took)
			}
		})
	}
}

// silentPort accepts connections and never answers. waited says how long a process, which has
// ended, waited there; how long it took to start makes no difference.
func silentPort(t *testing.T) (address string, waited func() time.Duration) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fixture.Must(t, err)
	var begun, ended time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if begun.IsZero() {
				begun = time.Now()
			}
			_, _ = io.Copy(io.Discard, c)
			_, ended = c.Close(), time.Now()
		}
	}()
	return l.Addr().String(), func() time.Duration {
		_ = l.Close()
		<-done
		return ended.Sub(begun)
	}
}

// Keys of JSON that commands print are in one style: no golden file has another one.
func TestJSONKeysAreInOneStyle(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	keys := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range jsonKey.FindAllStringSubmatch(string(text), -1) {
			if keys++; !camelCase.MatchString(m[1]) {
				t.Errorf("%s: %q", file, m[1])
			}
		}
	}
	if keys < 200 {
		t.Errorf("%d keys", keys)
	}
}

var (
	jsonKey = regexp.MustCompile(`(?m)^ *"([^"/]+)": `) // names of modules have slashes
	// The others are names, of checks and of requests, under which a number stands.
	camelCase = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$|^missing-row$|^scratch-tables$|^[A-Z][A-Za-z]+Rows?$`)
)

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
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
	s.run(exitUsage, "schema", "verify", "documents", "by-ur")
	s.run(exitOK, "gc", "hold", "ls", "--watch=1s", "--timeout", "2500ms")
	s.run(exitOK, "gc", "hold", "ls", "--watch", "--timeout", "2500ms", "-o", "json")
	s.run(exitUsage, "gc", "hold", "ls", "--watch=-1s")
	s.compare("everyday.txt")
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
		{[]string{"notify", "retry", ""}, "documents"},
		{[]string{"notify", "retry", "documents", "", ""}, ""},
		{[]string{"notify", "retry", "documents", ""}, `"org example"`},
		{[]string{"notify", "retry", "documents", `"org example"`, "contents", ""}, "index"},
		{[]string{"observers", "forget", "documents", ""}, "contents"},
		{[]string{"observers", "forget", "documents", "contents", ""}, `index "re count"`},
	} {
		words := append([]string{"__complete"}, c.args[:len(c.args)-1]...)
		words = append(append(words, instance...), c.args[len(c.args)-1])
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

// wrongHostLimit is more than a command waits for an emulator, on a busy machine, and less than
// Google's clients do.
const wrongHostLimit = 20 * time.Second

// Where nothing listens, a command says so, with the address, and not that a schema may be missing.
func TestWrongEmulatorHost(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	env := append(onBigtable("127.0.0.1:1"), tsoAddrEnv+"=127.0.0.1:1", "PERCOLATOR_PROJECT=p", "PERCOLATOR_INSTANCE=i")
	for _, args := range [][]string{
		{"get", "documents", "a"}, {"schema", "show"}, {"schema", "apply", webSchema, "--yes"}, {"init"}, {"tso", "serve", "--listen", "127.0.0.1:0"}, {"check"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			p := start(t, env, args...)
			code := p.wait(t)
			said := p.stderr.String() + p.stdout.String()
			if code != exitUnavailable || !strings.Contains(said, "dial tcp 127.0.0.1:1: ") || strings.Contains(said, "schema") {
				t.Errorf("exit status %d\n%s", code, said)
			}
			if took := time.Since(begun); took > wrongHostLimit {
				t.Errorf("it took %v to say so", took)
			}
		})
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

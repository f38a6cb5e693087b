package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

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

package main

import (
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, cellSchema())
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := cl.must(exitOK, "completion", shell).out; !strings.Contains(out, "percolator") || len(out) < 1000 {
			t.Errorf("%s: %d bytes", shell, len(out))
		}
	}
	cl.must(exitUsage, "completion")
	cl.must(exitUsage, "completion", "tcsh")
	instance := []string{"--project", cl.project, "--instance", cl.instance}
	for _, c := range []struct {
		args []string
		want string // sorted as the schema is
	}{
		{[]string{"get", ""}, "accounts documents"},
		{[]string{"get", "d"}, "documents"},
		{[]string{"get", "documents", ""}, ""},
		{[]string{"notify", "ls", ""}, "accounts documents"},
		{[]string{"schema", "verify", "documents", ""}, "by-url"},
		{[]string{"schema", "backfill", "accounts", ""}, ""},
	} {
		words := append([]string{"__complete"}, c.args[:len(c.args)-1]...)
		words = append(append(words, instance...), c.args[len(c.args)-1])
		if got := completions(cl.must(exitOK, words...).out); got != c.want {
			t.Errorf("%q is completed by %q, want %q", c.args, got, c.want)
		}
	}
	// Where no instance is named nothing is completed, and nobody waits.
	if got := completions(cl.must(exitOK, "__complete", "get", "").out); got != "" {
		t.Errorf("without an instance: %q", got)
	}
	if got := completions(cl.must(exitOK, "__complete", "completion", "").out); got != "bash zsh fish powershell" {
		t.Errorf("shells: %q", got)
	}
}

// completions are the lines before the directive.
func completions(out string) string {
	var list []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, ":") {
			break
		}
		list = append(list, strings.TrimSpace(line))
	}
	return strings.Join(list, " ")
}

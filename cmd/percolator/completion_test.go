package main

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	cl := &cluster{t: t}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := cl.must(cli.ExitOK, "completion", shell).out; !strings.Contains(out, "percolator") || len(out) < 1000 {
			t.Errorf("%s: %d bytes", shell, len(out))
		}
	}
	cl.must(cli.ExitUsage, "completion")
	cl.must(cli.ExitUsage, "completion", "tcsh")
	const noFiles, files = ":4", ":0"
	for _, c := range []struct {
		words     []string
		want      string
		directive string
	}{
		{[]string{"completion", ""}, "bash zsh fish powershell", noFiles},
		{[]string{"help", "sch"}, "schema", noFiles},
		{[]string{"get", "documents", "-o", ""}, "table json", noFiles},
		{[]string{"get", ""}, "", noFiles},
		{[]string{"schema", "apply", ""}, "", files},
		{[]string{"restore", ""}, "", files},
	} {
		got, directive := completions(cl.must(cli.ExitOK, append([]string{"__completeNoDesc"}, c.words...)...).out)
		if got != c.want || directive != c.directive {
			t.Errorf("%q is completed by %q, %s, want %q, %s", c.words, got, directive, c.want, c.directive)
		}
	}
}

// completions are the lines before the directive, and that.
func completions(out string) (list, directive string) {
	before, after, _ := strings.Cut(out, "\n:")
	if strings.HasPrefix(out, ":") {
		before, after = "", out[1:]
	}
	return strings.Join(strings.Fields(before), " "), ":" + strings.TrimSpace(after)
}

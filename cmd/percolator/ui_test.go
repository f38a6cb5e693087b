package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/percolator"
)

var uiSchema = &percolator.Schema{Tables: []percolator.Table{{Name: "documents", Observed: []string{"contents"}}}}

// serveUI runs "percolator ui" until stop is called, and returns the address that it printed.
func (c *cluster) serveUI(args ...string) (address string, stop func() result) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.connected(context.Background()))
	c.t.Cleanup(cancel)
	args = append([]string{"ui", "--listen", "127.0.0.1:0", "--project", c.project, "--instance", c.instance, "--tso", c.tso}, args...)
	out, w := io.Pipe()
	var log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code := execute(ctx, args, strings.NewReader(""), w, &log)
		_ = w.Close()
		ended <- code
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.t.Fatalf("percolator ui: %v, exit status %d\n%s", err, <-ended, &log)
	}
	return strings.TrimSpace(line), func() result {
		cancel()
		select {
		case code := <-ended:
			return result{code: code, stderr: log.String()}
		case <-time.After(clusterLimit):
			c.t.Fatal("percolator ui does not stop")
			return result{}
		}
	}
}

// The console is served where its address says, and stops with its live pages when it is told to.
func TestUI(t *testing.T) {
	c := newCluster(t, uiSchema)
	address, stop := c.serveUI("--path-prefix", "/admin/percolator")
	if !strings.HasSuffix(address, "/admin/percolator/") {
		t.Errorf("the address is %s", address)
	}
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	for _, want := range []string{"p/i", "Overview", "Read-only", c.tso + " leads"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("%d (%v), without %q:\n%s", resp.StatusCode, err, want, body)
		}
	}
	live, err := http.Get(address + "events?page=overview")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = live.Body.Close() }()
	if line, err := bufio.NewReader(live.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry:") {
		t.Errorf("a live page begins with %q, %v", line, err)
	}
	if r := stop(); r.code != cli.ExitOK {
		t.Errorf("exit status %d\n%s", r.code, r.stderr)
	}
	if _, err := http.Get(address); err == nil {
		t.Error("it is still served")
	}
}

func TestUIWithPassword(t *testing.T) {
	const password = "correct horse battery"
	t.Setenv(look.UIPasswordEnv, password)
	c := newCluster(t, uiSchema)
	address, stop := c.serveUI("--user", "ops", "--allow-changes")
	for given, want := range map[string]int{"": http.StatusUnauthorized, password: http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("ops", given)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with password %q: %d, want %d", given, resp.StatusCode, want)
		}
	}
	if r := stop(); r.code != cli.ExitOK || strings.Contains(r.stderr, password) {
		t.Errorf("exit status %d\n%s", r.code, r.stderr)
	}
}

// What is wrong with the flags is said before anything is served.
func TestUIRefused(t *testing.T) {
	t.Setenv(look.UIPasswordEnv, "short")
	c := newCluster(t, uiSchema)
	s := session{c: c}
	s.run(cli.ExitUsage, "ui", "--listen", "0.0.0.0:0")
	s.run(cli.ExitUsage, "ui", "--listen", "nowhere")
	s.run(cli.ExitUsage, "ui", "--listen", "127.0.0.1:0", "--user", "ops")
	s.run(cli.ExitUsage, "ui", "--listen", "127.0.0.1:0", "--path-prefix", "a?b")
	s.run(cli.ExitUsage, "ui", "--listen", "127.0.0.1:0", "--project", "")
	s.compare("ui.txt")
}

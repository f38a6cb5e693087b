package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A worker's metrics are at hand while it runs: the client's, the observers', and those of the
// process.
func TestWorkerMetrics(t *testing.T) {
	t.Parallel()
	s := startStore(t)
	s.run("init")
	p := s.start("worker", "--metrics", "127.0.0.1:0")
	var url string
	p.await(regexp.MustCompile(`worker: metrics at (\S+)\n`), func(last []string) bool { url = last[1]; return true })
	p.await(regexp.MustCompile(`joined webindex/webindex\n`), nil)
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"percolator_transactions_total", "db_client_operation_duration_seconds_count", "go_goroutines"} {
		if !strings.Contains(string(page), "\n"+name) {
			t.Errorf("%s is not there", name)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := p.wait(); status != 0 {
		t.Errorf("the worker ended with status %d", status)
	}
}

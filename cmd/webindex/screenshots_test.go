package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestScreenshots draws the search page for docs/webindex, with PERCOLATOR_SCREENSHOTS=DIRECTORY and
// Chromium.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("PERCOLATOR_SCREENSHOTS")
	if dir == "" {
		t.Skip("draws pages only when PERCOLATOR_SCREENSHOTS names a directory")
	}
	ctx, interrupt := context.WithTimeout(t.Context(), 2*time.Minute)
	defer interrupt()
	stdout, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	ended := make(chan int, 1)
	go func() {
		defer writer.Close()
		ended <- run(ctx, []string{"demo", "--addr", "127.0.0.1:0"}, writer, output(t))
	}()
	address := awaitAddress(t, stdout)
	pages := map[string]string{
		"start": "/", "results": "/?q=lighthouse+keeper", "nothing": "/?q=lighthouse+zebra",
		"stored": "/stored?q=lighthouse&url=http%3A%2F%2Flights.example%2F", "document": "/document?url=http%3A%2F%2Flights.example%2F",
	}
	schemes := map[string]string{"light": "1", "dark": "0"}
	for name, path := range pages {
		for scheme, number := range schemes {
			draw(ctx, t, filepath.Join(dir, name+"-"+scheme+".png"), address+path, 1280, number)
		}
		draw(ctx, t, filepath.Join(dir, name+"-narrow.png"), address+path, 500, "1")
	}
	interrupt()
	if status := <-ended; status != 0 {
		t.Errorf("status %d", status)
	}
}

// draw has Chromium draw a page; the scheme of colours is a number of its own.
func draw(ctx context.Context, t *testing.T, file, url string, width int, scheme string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--blink-settings=preferredColorScheme="+scheme, fmt.Sprintf("--window-size=%d,900", width), "--screenshot="+file, url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

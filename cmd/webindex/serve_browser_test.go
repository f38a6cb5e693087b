package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// browserLimit bounds what a browser does in a test.
const browserLimit = 4 * time.Minute

// TestSearchPageInBrowser: no page of the demo sticks out of a screen, be it a telephone's. With
// PERCOLATOR_SCREENSHOTS=DIRECTORY it draws the pages for docs/webindex.
func TestSearchPageInBrowser(t *testing.T) {
	fixture.Long(t)
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no Chromium on this machine: install Debian's package chromium to test the pages in a browser")
	}
	t.Parallel()
	ctx, interrupt := context.WithTimeout(t.Context(), browserLimit)
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
	browser := openBrowser(t, path)
	for name, page := range map[string]string{
		"start": "/", "results": "/?q=lighthouse+keeper", "nothing": "/?q=lighthouse+zebra",
		"stored": "/stored?q=glossary+harbour&url=http%3A%2F%2Fharbours.example%2Fglossary%2F", "document": "/document?url=http%3A%2F%2Flights.example%2F",
	} {
		if err := chromedp.Do(browser, chromedp.Navigate(address+page)); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{1280, 400} {
			for _, scheme := range []string{"light", "dark"} {
				look(t, browser, name, width, scheme)
			}
		}
	}
	interrupt()
	if status := <-ended; status != 0 {
		t.Errorf("status %d", status)
	}
}

func openBrowser(t *testing.T, path string) context.Context {
	t.Helper()
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(browserLimit)}
	for _, flag := range []string{"headless", "no-first-run", "no-sandbox", "disable-gpu", "disable-background-networking", "disable-dev-shm-usage", "hide-scrollbars"} {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	limit, cancel := context.WithTimeout(context.Background(), browserLimit)
	t.Cleanup(cancel)
	allocator, stop := chromedp.NewExecAllocator(limit, opts...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	return ctx
}

// look looks at the page that is loaded, at a width and in a scheme of colours.
func look(t *testing.T, ctx context.Context, name string, width int64, scheme string) {
	t.Helper()
	err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 600), chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	over, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`))
	if err != nil || over > 0 {
		t.Errorf("%s sticks out by %d pixels at a width of %d: %v", name, over, width, err)
	}
	dir := os.Getenv("PERCOLATOR_SCREENSHOTS")
	if dir == "" {
		return
	}
	if width < 1000 {
		name += "-400"
	}
	shot, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+"-"+scheme+".png"), shot, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

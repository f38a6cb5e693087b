package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	browser, address := openDemo(t)
	for name, page := range map[string]string{
		"start": "/", "results": "/?q=lighthouse+keeper", "nothing": "/?q=lighthouse+zebra",
		"stored": "/stored?q=glossary+harbour&url=http%3A%2F%2Fharbours.example%2Fglossary%2F", "document": "/document?url=http%3A%2F%2Flights.example%2F",
	} {
		if err := chromedp.Do(browser, chromedp.Navigate(address+page)); err != nil {
			t.Fatal(err)
		}
		lookAtAll(t, browser, name)
	}
}

// TestChangeInBrowser does what a newcomer does: they change the page of a result, and the result
// is another without a reload.
func TestChangeInBrowser(t *testing.T) {
	browser, address := openDemo(t)
	do := func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(browser, actions...); err != nil {
			t.Fatal(err)
		}
	}
	do(chromedp.Navigate(address+"/?q=lighthouse+keeper"), chromedp.Click(`main li a[href^="/change?"]`), chromedp.WaitVisible("textarea"))
	lookAtAll(t, browser, "change")
	rename := `(() => { const f = document.querySelector("textarea"); f.value = f.value.replace(/<title>/, "<title>Zebras, ") })()`
	if _, err := chromedp.Run(browser, chromedp.Evaluate[any](rename, chromedp.EvalAsValue)); err != nil {
		t.Fatal(err)
	}
	do(chromedp.Click("main form button"), chromedp.WaitVisible(`#travel[data-done]`))
	title, err := chromedp.Run(browser, chromedp.Evaluate[string](`document.querySelector("li.changed h2").textContent`))
	if err != nil || !strings.HasPrefix(title, "Zebras, ") {
		t.Errorf("the result is %q: %v", title, err)
	}
	reloads, err := chromedp.Run(browser, chromedp.Evaluate[int](`performance.getEntriesByType("navigation").filter((n) => n.type === "reload").length`))
	if err != nil || reloads > 0 {
		t.Errorf("%d reloads: %v", reloads, err)
	}
	lookAtAll(t, browser, "changed")
}

// openDemo runs the demo, until the test ends, and a browser.
func openDemo(t *testing.T) (browser context.Context, address string) {
	t.Helper()
	fixture.Long(t)
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no Chromium on this machine: install Debian's package chromium to test the pages in a browser")
	}
	t.Parallel()
	ctx, interrupt := context.WithTimeout(context.Background(), browserLimit)
	stdout, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	stderr := output(t)
	go func() {
		defer writer.Close()
		ended <- run(ctx, []string{"demo", "--addr", "127.0.0.1:0"}, writer, stderr)
	}()
	t.Cleanup(func() {
		interrupt()
		if status := <-ended; status != 0 {
			t.Errorf("status %d", status)
		}
		stdout.Close()
	})
	return openBrowser(t, path), awaitAddress(t, stdout)
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

// lookAtAll looks at the page that is loaded at all widths, in all schemes of colours.
func lookAtAll(t *testing.T, browser context.Context, name string) {
	t.Helper()
	for _, width := range []int64{1280, 400} {
		for _, scheme := range []string{"light", "dark"} {
			look(t, browser, name, width, scheme)
		}
	}
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

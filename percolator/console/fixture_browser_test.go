package console

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a Chromium with one page of a console, and everything that it has complained about.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string

	mu         sync.Mutex
	complaints []string
}

// browserLimit is for how long a browser may live.
const browserLimit = 3 * testLimit

// openBrowser opens a page of Chromium, with a profile of its own, on the handler at the given
// width in pixels. Without Chromium the test is skipped: what the server sends is tested all the
// same.
func openBrowser(t *testing.T, h *Handler, width int64) *browser {
	t.Helper()
	path := chromium()
	if path == "" {
		t.Skip("no Chromium on this machine: install Debian's package chromium to test the pages in a browser")
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	chrome.Do(func() { chrome.err = startChromium(path) })
	if chrome.err != nil {
		t.Fatal(chrome.err)
	}
	limit, cancel := context.WithTimeout(chrome.ctx, browserLimit)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewContext(limit, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	b := &browser{t: t, ctx: ctx, url: server.URL + strings.TrimSuffix(h.cfg.PathPrefix, "/")}
	b.do(chromedp.EmulateViewport(width, 900))
	b.listen()
	return b
}

// chrome is the Chromium of all tests, which the first one starts.
var chrome struct {
	sync.Once
	ctx context.Context
	end func()
	err error
}

func startChromium(path string) error {
	dir, err := os.MkdirTemp("", "console")
	if err != nil {
		return err
	}
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.WSURLReadTimeout(testLimit), chromedp.WindowSize(1280, 900),
	}
	for _, flag := range []string{
		"headless", "no-first-run", "no-sandbox", "disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync",
		"disable-dev-shm-usage", "hide-scrollbars", "disable-extensions", "disable-default-apps", "metrics-recording-only",
	} {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, end := chromedp.NewContext(allocator)
	chrome.ctx, chrome.end = ctx, func() {
		end()
		stop()
		_ = os.RemoveAll(dir)
	}
	return chromedp.Do(ctx)
}

// EndChromium ends the tests' browser.
func EndChromium() {
	if chrome.end != nil {
		chrome.end()
	}
}

func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// listen keeps what a person would see in the browser's console: violations of the policy, failed
// requests, errors of scripts.
func (b *browser) listen() {
	tab := chromedp.FromContext(b.ctx).Target
	collect(b, cdp.Events(b.ctx, tab, log.EntryAdded), func(e log.EventEntryAdded) string {
		return fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	})
	collect(b, cdp.Events(b.ctx, tab, runtime.ConsoleAPICalled), func(e runtime.EventConsoleAPICalled) string {
		return fmt.Sprint("console.", e.Type)
	})
	collect(b, cdp.Events(b.ctx, tab, runtime.ExceptionThrown), func(e runtime.EventExceptionThrown) string {
		return fmt.Sprintf("exception: %s %s:%d", e.ExceptionDetails.Text, e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber)
	})
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, log.Enable, cdp.Empty{})
		return err
	}))
}

func collect[E any](b *browser, events iter.Seq2[E, error], describe func(E) string) {
	go func() {
		for event, err := range events {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.complaints = append(b.complaints, describe(event))
			b.mu.Unlock()
		}
	}()
}

// complained returns what the browser has complained about so far, and forgets it.
func (b *browser) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.Clone(b.complaints)
	b.complaints = nil
	return list
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("%v; the browser complained: %q", err, b.complained())
	}
}

// open loads a page and waits until it is live, unless it is one that never is.
func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
	b.await(`!("live" in document.body.dataset) || ["live", "stale"].includes(document.getElementById("live").dataset.state)`)
}

// evaluate evaluates an expression in the page.
func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v; the browser complained: %q", expression, err, b.complained())
	}
	return v
}

// await waits until a condition holds in the page, or in the one that comes next.
func (b *browser) await(condition string) {
	b.t.Helper()
	deadline := time.Now().Add(testLimit)
	for pause := 5 * time.Millisecond; ; pause = min(pause*3/2, 50*time.Millisecond) {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("document.readyState === \"complete\" && Boolean("+condition+")"))
		switch {
		case ok:
			return
		case b.ctx.Err() != nil || time.Now().After(deadline):
			page, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location + "\n" + document.querySelector("main").innerText`))
			b.t.Fatalf("%s: it did not come to that (%v); the browser complained: %q; it shows %s", condition, err, b.complained(), page)
		}
		time.Sleep(pause) // an error is a page that is going away
	}
}

// press types keys, one after another, to whatever has the focus.
func (b *browser) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// prefer has the system ask for a scheme of colours.
func (b *browser) prefer(scheme string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// quiet fails the test if the browser has complained.
func (b *browser) quiet() {
	b.t.Helper()
	if list := b.complained(); len(list) > 0 {
		b.t.Errorf("the browser complains: %q", list)
	}
}

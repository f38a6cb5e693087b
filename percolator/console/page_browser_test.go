package console

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// In a real browser every page loads under its policy without a word of complaint, at the width of
// a telephone as well, where nothing sticks out.
func TestPagesInBrowser(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	c := newCluster(t, 1)
	o := new(observer)
	c.work(c.client, o)
	c.park(o, "com.example/a-row-with-a-name-that-is-longer-than-a-telephone-is-wide", "no luck")
	c.strand(time.Hour, document("com.example/a-row-with-a-lock", "title"), percolator.Cell{Table: "words", Row: "ferry", Column: "count"})
	h := c.handler(func(cfg *Config) { cfg.AllowChanges, cfg.ShowValues = true, true })
	b := openBrowser(t, h, 1280)
	paths := slices.Concat(slices.Collect(maps.Keys(everyPage)), []string{rowOf("documents", "com.example/a-row-with-a-lock", "values", "1"), rowOf("documents", "com", "browse", "1")})
	for _, path := range paths {
		b.open(path)
		for _, width := range []int64{1280, 400} {
			b.do(chromedp.EmulateViewport(width, 800))
			if width == 400 {
				if n := evaluate[int](b, `Array.from(document.querySelectorAll(".scroll")).filter((e) => e.scrollWidth > e.clientWidth).length`); n > 0 {
					t.Errorf("%s hides columns of %d tables behind a scroll", path, n)
				}
			}
			if over := evaluate[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s sticks out by %d pixels at a width of %d", path, over, width)
			}
			if n := evaluate[int](b, `document.querySelectorAll("h1").length`); n != 1 {
				t.Errorf("%s has %d headings of the first order", path, n)
			}
			b.quiet()
		}
	}
	// The policy is in force: code in the page does not run, and the browser says so.
	evaluate[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.hurt = 1"; document.body.append(s); return true })()`)
	if evaluate[bool](b, `"hurt" in window`) {
		t.Error("inline code runs")
	}
	eventually(t, "a complaint", func() bool { return len(b.complained()) > 0 })
}

// At the width of a desk, a list of locks with keys of 29 bytes fits, and so do its buttons.
func TestLocksInBrowser(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	c := newCluster(t, 1)
	c.strand(100*time.Millisecond, document("com.example/lighthouse-keeper", "contents"), document("com.example/lighthouse-keeper", "a-longer-column"))
	b := openBrowser(t, c.handler(func(cfg *Config) { cfg.AllowChanges = true }), 1280)
	b.open("/locks")
	b.await(`document.querySelectorAll(".scroll form button").length === 2`)
	if over := evaluate[int](b, `(() => { const e = document.querySelector(".scroll"); return e.scrollWidth - e.clientWidth })()`); over > 0 {
		t.Errorf("%d pixels of the list are behind a scroll", over)
	}
	b.quiet()
}

// Charts draw what is known when the page is loaded, and go on by themselves. Nothing in the page
// is lost when it is renewed.
func TestLiveInBrowser(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	c := newCluster(t, 1)
	h := c.handler(func(cfg *Config) { cfg.PathPrefix = "/admin/percolator/" })
	b := openBrowser(t, h, 1280)
	b.open("/")
	b.await(`document.querySelectorAll(".chart canvas").length === ` + number(len(charts)))
	// Something is drawn: pixels that are not transparent, in the chart of what the poll itself
	// asks the oracle for.
	inked := `(() => { const c = document.querySelector("[data-chart=oracle] canvas"); return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.reduce((n, v, i) => n + (i % 4 === 3 && v > 0 ? 1 : 0), 0) })()`
	b.await(inked + ` > 1000`)
	before := evaluate[string](b, `document.querySelector("[data-chart=oracle] canvas").toDataURL()`)
	evaluate[bool](b, `(window.before = "`+before[len(before)-200:]+`", window.canvas = document.querySelector("[data-chart=oracle] canvas"), document.querySelector(".facts a").focus(), true)`)
	c.set("value", document("r", "contents"))
	b.await(`!document.querySelector("[data-chart=oracle] canvas").toDataURL().endsWith(window.before)`)
	b.await(`document.querySelector("[data-chart=backlog] .figure").textContent === "1"`)
	if !evaluate[bool](b, `window.canvas.isConnected && document.activeElement.matches(".facts a")`) {
		t.Error("the chart or the focus did not survive an update")
	}
	b.quiet()
}

func TestColoursInBrowser(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	b := openBrowser(t, newCluster(t, 1).handler(), 1000)
	background := `getComputedStyle(document.body).backgroundColor`
	b.prefer("dark")
	b.open("/storage")
	dark := evaluate[string](b, background)
	b.prefer("light")
	light := evaluate[string](b, background)
	if dark == light {
		t.Fatalf("the system's choice makes no difference: %s", dark)
	}
	for _, want := range []string{light, dark, light} { // light, dark, as the system has it
		b.press("c")
		b.await(background + ` === "` + want + `"`)
	}
	b.press("c")
	b.press("c")
	b.open("/oracle") // the choice is kept
	b.await(background + ` === "` + dark + `"`)
	b.quiet()
}

// Every page can be reached, and everything on it used, without a mouse.
func TestKeysInBrowser(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	c := newCluster(t, 1)
	c.set("value", document("a row", "contents"))
	b := openBrowser(t, c.handler(), 1000)
	b.open("/")
	b.press(kb.Tab)
	b.await(`document.activeElement.matches(".skip")`)
	b.press(kb.Enter)
	b.await(`document.activeElement.id === "main"`)
	for _, tab := range tabs {
		// The keys are two within a time, however slowly this machine sends them; the page that is
		// left may be the tab's own.
		evaluate[bool](b, `(now => { window.left = true; Date.now = () => now })(Date.now()), true`)
		b.press("g" + tab.Key)
		b.await(`!window.left && document.querySelector("nav [aria-current]")?.textContent === "` + tab.Title + `"`)
	}
	b.press("?")
	b.await(`document.getElementById("help").open`)
	b.press("gl") // goes nowhere while the list is open
	b.press(kb.Escape)
	b.await(`!document.getElementById("help").open`)
	b.press("/")
	b.await(`document.activeElement.id === "row"`)
	b.press(`"a row"` + kb.Enter)
	b.await(`document.querySelector(".figure4 .column")?.textContent.includes("contents")`)
	for _, text := range []string{"put", "notified", "a reader finds a value of 5 bytes"} {
		b.await(`document.querySelector(".figure4").textContent.includes("` + text + `")`)
	}
	if evaluate[bool](b, `document.body.textContent.includes("value\n") || document.querySelector("pre") !== null`) {
		t.Error("a value is shown that nobody may see")
	}
	b.quiet()
}

// A person finds a parked cell, opens its row, retries it, and sees that it is gone; another one is
// dropped after a question.
func TestParkedInBrowser(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	c := newCluster(t, 1)
	o := new(observer)
	c.work(c.client, o)
	c.park(o, "first", "the cause")
	c.park(o, "second", "the cause")
	b := openBrowser(t, c.handler(func(cfg *Config) { cfg.AllowChanges, cfg.ShowValues = true, true }), 1000)
	b.open("/")
	b.await(`document.querySelector(".attention").textContent.includes("2 cells are parked")`)
	b.do(chromedp.Click(chromedp.CSS(`.attention a[href="observers"]`)))
	b.await(`document.querySelectorAll("form[action=retry-parked]").length === 2`)
	b.do(chromedp.Click(chromedp.CSS(`td a[href*="row=first"]`)))
	b.await(`document.querySelector(".figure4")?.textContent.includes("parked after 3 attempts: ")`)
	b.do(chromedp.Click(chromedp.CSS(`a.button`)))
	b.await(`document.querySelector("pre")?.textContent === "a document about first"`)

	o.setFail("first", "")
	b.open("/observers")
	b.do(chromedp.Click(chromedp.CSS(`button[aria-label="Retry index for row first"]`)))
	b.await(`document.querySelector(".notice")?.textContent === "` + notices["retried"] + `"`)
	b.await(`document.querySelectorAll("form[action=retry-parked]").length === 1 && !document.body.textContent.includes("first")`)

	b.do(chromedp.Click(chromedp.CSS(`summary[aria-label="Drop the change of row second for index"]`)))
	b.await(`document.querySelector("details.confirm").open`)
	seen := evaluate[string](b, `document.querySelector("td.number[title]").textContent`)
	b.await(`document.querySelector("td.number[title]").textContent !== "` + seen + `"`) // the page was renewed
	b.await(`document.querySelector("details.confirm").open`)                            // and the question stays
	b.do(chromedp.Click(chromedp.CSS(`details button.danger`)))
	b.await(`document.querySelector(".notice")?.textContent === "` + notices["dropped"] + `" && document.body.textContent.includes("Nothing is parked")`)
	b.quiet()
}

// A person filters the list of parked cells, groups it by reason, and finds one group; what is
// shown stays so while the page is kept up to date.
func TestListsInBrowser(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	c := newCluster(t, 1)
	o := new(observer)
	c.work(c.client, o)
	for row, reason := range map[string]string{"first": "a cause", "second": "a cause", "third": "another"} {
		c.park(o, row, reason)
	}
	b := openBrowser(t, c.handler(), 1000)
	rows := `Array.from(document.querySelectorAll("#parked ~ .scroll tbody tr td:nth-child(2)"), (e) => e.textContent.trim()).join()`
	b.open("/observers")
	b.do(chromedp.Click(chromedp.CSS(`.group-by a[href*="group=reason"]`)))
	b.await(`document.querySelectorAll("#parked ~ .scroll tbody tr").length === 2`)
	b.do(chromedp.Click(chromedp.CSS(`a[href*="another"]`)))
	b.await(rows + ` === "third"`)
	b.do(chromedp.Click(chromedp.CSS(`.count a`)))
	b.await(rows + `.split(",").length === 3`)
	b.do(chromedp.Click(chromedp.CSS(`thead a[href*="sort=row"]`)))
	b.await(rows + ` === "first,second,third"`)
	b.do(chromedp.Click(chromedp.CSS(`thead a[href*="sort=row"]`)))
	b.await(rows + ` === "third,second,first"`)
	b.do(chromedp.Focus(chromedp.CSS(`.filter input`)))
	b.press("sec" + kb.Enter)
	b.await(rows + ` === "second"`)
	b.await(`document.getElementById("live").dataset.state === "live"`)
	seen := evaluate[string](b, `document.querySelector("#waiting ~ .hint").textContent`)
	b.await(`document.querySelector("#waiting ~ .hint").textContent !== "` + seen + `"`) // the page was renewed
	b.await(rows + ` === "second"`)
	b.quiet()
}

func number(n int) string { return fmt.Sprint(n) }

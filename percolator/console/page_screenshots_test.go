package console

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// load writes documents until the test ends, some of them often, so that there are conflicts.
func (c *cluster) load(client *percolator.Client) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c.t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			row := fmt.Sprintf("com.example/page-%03d", rand.IntN(300))
			_, _ = client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				hot := percolator.Cell{Table: "words", Row: fmt.Sprint("total-", rand.IntN(8)), Column: "count"}
				if _, err := tx.Get(ctx, hot); err != nil && ctx.Err() != nil {
					return err
				}
				_ = tx.Set(hot, fmt.Append(nil, n))
				return tx.Set(document(row, "contents"), fmt.Appendf(nil, "revision %d of %s", n, row))
			}, percolator.MaxAttempts(3))
			time.Sleep(time.Duration(rand.IntN(12)) * time.Millisecond) // load, not a wait for anything
		}
	}()
}

// TestScreenshots draws the pages for docs/console, with PERCOLATOR_SCREENSHOTS=DIRECTORY.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("PERCOLATOR_SCREENSHOTS")
	if dir == "" {
		t.Skip("draws pages only when PERCOLATOR_SCREENSHOTS names a directory")
	}
	c := newQueueCluster(t, 2)
	o := new(observer)
	for i := range 2 {
		worker := c.env.NewClient(c.ownOracle(), percolatortest.Name(fmt.Sprint("worker-", i)))
		c.work(worker, o)
		c.load(worker)
	}
	c.work(c.client, o)
	c.load(c.client)
	c.set("a first version", document("com.example/harbour", "contents"))
	c.set("a second one, a little longer", document("com.example/harbour", "contents"))
	c.park(o, "com.example/lighthouse", "fetching http://localhost:8081/robots.txt: connection refused")
	c.park(o, "com.example/pier", "fetching http://localhost:8081/robots.txt: connection refused")
	c.export("ada@example.com", "bad 550 5.1.1 no such user here", "bob@example.com", "hello", "eve@example.com", "bad 554 5.7.1 the message was refused as spam")
	c.strand(10*time.Second, document("com.example/ferry", "title"), percolator.Cell{Table: "words", Row: "ferry", Column: "count"})
	c.strand(time.Hour, document("com.example/harbour", "title"), document("com.example/harbour", "author"))
	if _, err := admin.New(c.client).TakeHold(testContext(t), 0, 6*time.Hour, "backup to gs://example/percolator"); err != nil {
		t.Fatal(err)
	}
	h := c.handler(func(cfg *Config) {
		cfg.AllowChanges, cfg.ShowValues, cfg.PollInterval = true, true, 500*time.Millisecond
	})
	b := openBrowser(t, h, 1280)
	b.open("/")
	b.await(`Number(document.querySelectorAll(".u-wrap").length) > 5`)
	enough, cancel := context.WithTimeout(t.Context(), screenshotLoad)
	defer cancel()
	<-enough.Done()
	pages := map[string]string{
		"overview": "/", "row": "/row?table=documents&row=com.example/harbour&values=1", "locks": "/locks", "observers": "/observers",
		"workers": "/workers", "contention": "/contention", "browse": "/row?table=documents&row=com.example/&browse=1", "oracle": "/oracle", "journal": "/journal", "storage": "/storage", "row-parked": "/row?table=documents&row=com.example/lighthouse",
	}
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		for name, path := range pages {
			b.draw(dir, name+"-"+scheme, path, 1280)
			b.draw(dir, name+"-400-"+scheme, path, 400)
		}
	}
	b.quiet()
}

// screenshotLoad is for how long the charts gather points.
const screenshotLoad = 40 * time.Second

func (b *browser) draw(dir, name, path string, width int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 820))
	b.open(path)
	b.await(`!document.querySelector("[data-chart]") || document.querySelector(".u-wrap canvas")`)
	shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		shot, err = compact(shot)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), shot, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// compact keeps the 256 most frequent colours of a picture, a page has few others, at the edges of
// letters; and of a high one the first part, four times as high as wide.
func compact(b []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	area, often := from.Bounds(), map[color.Color]int{}
	area.Max.Y = min(area.Max.Y, 4*area.Max.X)
	for y := range area.Dy() {
		for x := range area.Dx() {
			often[from.At(x, y)]++
		}
	}
	palette := slices.SortedFunc(maps.Keys(often), func(a, b color.Color) int { return often[b] - often[a] })
	to := image.NewPaletted(area, color.Palette(palette[:min(len(palette), 256)]))
	index := map[color.Color]uint8{}
	for y := range area.Dy() {
		for x := range area.Dx() {
			c := from.At(x, y)
			i, ok := index[c]
			if !ok {
				i = uint8(to.Palette.Index(c))
				index[c] = i
			}
			to.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to)
	return out.Bytes(), err
}

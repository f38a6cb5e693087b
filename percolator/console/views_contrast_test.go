package console

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

var colour = regexp.MustCompile(`--([\w-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)`)

// Text has the contrast that WCAG 2 asks for at level AA, 4.5 to 1, on every surface where it
// stands, in both schemes; so have the lines of charts.
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := files.ReadFile("assets/console.css")
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string][]string{}
	for _, c := range colour.FindAllStringSubmatch(string(css), -1) {
		colours[c[1]] = c[2:]
	}
	for text, surfaces := range map[string][]string{
		"ink": {"page", "surface", "raised", "warn-back", "bad-back", "good-back"}, "soft": {"page", "surface", "raised"},
		"accent": {"page", "surface"}, "on-accent": {"accent"}, "good": {"surface", "good-back"}, "warn": {"page", "surface", "warn-back"},
		"bad": {"surface", "bad-back"}, "tone-a": {"surface"}, "tone-b": {"surface"}, "tone-c": {"surface"}, "tone-d": {"surface"},
	} {
		for _, surface := range surfaces {
			for i, scheme := range []string{"light", "dark"} {
				if len(colours[text]) != 2 || len(colours[surface]) != 2 {
					t.Fatalf("there is no colour %s or %s", text, surface)
				}
				if c := contrast(t, colours[text][i], colours[surface][i]); c < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", scheme, text, surface, c)
				}
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// luminance is WCAG's relative luminance of a colour in hexadecimal digits.
func luminance(t *testing.T, hex string) (sum float64) {
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		v := float64(n) / 255
		if v <= 0.03928 {
			sum += weight * v / 12.92
			continue
		}
		sum += weight * math.Pow((v+0.055)/1.055, 2.4)
	}
	return sum
}

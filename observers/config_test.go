package observers

import (
	"errors"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

func TestConfigRefusesNegatives(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Concurrency: -1}, {Scanners: -1}, {MaxAttempts: -1}, {QueueLength: -1}, {ScanInterval: -1}, {DrainTimeout: -1}, {MinBackoff: -1}, {MaxBackoff: -1}} {
		if _, err := cfg.withDefaults(); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if _, err := NewWorker(nil, nil, Config{}); !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Error(err)
	}
}

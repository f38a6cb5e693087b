package console

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Limits of a Handler.
const (
	// MaxStreams is how many pages are kept live at once; others show what was true when they were
	// loaded.
	MaxStreams = 64
	// MaxFormBytes is the size of a form that changes something.
	MaxFormBytes = 64 << 10
	// MaxListed is how many rows of a table the poll looks at, and how many of anything a page lists.
	MaxListed = 200
	// MinPasswordBytes is the length of the shortest password.
	MinPasswordBytes = 12
	// MaxOracles is how many servers of the oracle are asked, as in tso.Dial.
	MaxOracles = 64
	// History is for how long samples are kept.
	History = 30 * time.Minute
)

// Config is how a Handler works. The zero value shows what the client knows, to whoever is on the
// same machine.
type Config struct {
	// Title says which instance this is, beside the name of the program; "" for nothing.
	Title string

	// Worker is the worker of this process, whose counters are then read directly. nil: none.
	Worker *observers.Worker

	// OracleAddresses are host:port of the oracle's servers, at most MaxOracles, and DialOptions how
	// to reach them. Without them the page of the oracle says so.
	OracleAddresses []string
	DialOptions     []tso.DialOption

	// PathPrefix is where the handler stands in the program's URLs, for instance "/percolator/". "" is
	// "/".
	PathPrefix string

	// Username and Password are what basic authentication asks for; the password has at least
	// MinPasswordBytes. Without them only loopback may look.
	Username, Password string

	// AllowChanges adds the buttons that resolve locks and retry or drop what is parked.
	AllowChanges bool
	// ShowValues lets values be seen in the row inspector, one row at a time.
	ShowValues bool

	// PollInterval is the time between two polls while somebody watches. 0: 2 s. At least 100 ms, at
	// most 1 min.
	PollInterval time.Duration

	// Logger receives what was changed through the console, by whom and where, without row keys. nil:
	// discard.
	Logger *slog.Logger
}

const defaultPollInterval = 2 * time.Second

// withDefaults also checks.
func (cfg Config) withDefaults() (Config, error) {
	invalid := func(format string, args ...any) (Config, error) {
		return cfg, fmt.Errorf("console: %w: %s", percolator.ErrInvalidArgument, fmt.Sprintf(format, args...))
	}
	switch {
	case (cfg.Username == "") != (cfg.Password == ""):
		return invalid("a username and a password are needed, or neither")
	case strings.Contains(cfg.Username, ":"):
		return invalid("a username cannot contain a colon")
	case cfg.Password != "" && len(cfg.Password) < MinPasswordBytes:
		return invalid("the password has %d bytes, less than %d", len(cfg.Password), MinPasswordBytes)
	case len(cfg.OracleAddresses) > MaxOracles:
		return invalid("%d addresses of the oracle, more than %d", len(cfg.OracleAddresses), MaxOracles)
	case strings.ContainsAny(cfg.PathPrefix, "?#{} "):
		return invalid("the path prefix %q", cfg.PathPrefix)
	}
	cfg.PollInterval = cmp.Or(cfg.PollInterval, defaultPollInterval)
	if cfg.PollInterval < 100*time.Millisecond || cfg.PollInterval > time.Minute {
		return invalid("PollInterval %v, not 100 ms to 1 min", cfg.PollInterval)
	}
	cfg.PathPrefix = "/" + strings.Trim(cfg.PathPrefix, "/")
	if cfg.PathPrefix != "/" {
		cfg.PathPrefix += "/"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg, nil
}

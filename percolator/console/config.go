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
	// MaxStreams is how many pages are kept live at once, none of them for another site. Pages
	// beyond it show what was true when they were loaded.
	MaxStreams = 64
	// MaxFormBytes is the size of the largest form that the console accepts. It refuses forms
	// beyond it.
	MaxFormBytes = 64 << 10
	// MaxListed is how many lines a list has: locks of a table, parked cells, streams. Beyond it
	// the list says that there are more.
	MaxListed = 1000
	// MaxCounted is how many rows with notifications or locks of each table a poll counts, within
	// 20 s. More, or those beyond it in time, show as "≥".
	MaxCounted = 100_000
	// MinPasswordBytes is the length of the shortest password.
	MinPasswordBytes = 12
	// MaxOracles is how many servers of the oracle are asked, as in tso.Dial. Beyond it NewHandler
	// returns an error.
	MaxOracles = 64
	// History is for how long samples are kept at least, with or without viewers.
	History = time.Hour
)

// Config is how a Handler works. The zero value shows what the client knows to browsers on the same
// machine.
type Config struct {
	// Title says which instance this is, beside the name of the program; "" for nothing.
	Title string

	// Worker is the worker of this process, whose counters are then read directly. nil: none.
	Worker *observers.Worker

	// OracleAddresses are the host:port of the oracle's servers, at most MaxOracles; DialOptions
	// say how to reach them. Without addresses the oracle page says that none are configured.
	OracleAddresses []string
	DialOptions     []tso.DialOption

	// PathPrefix is the handler's path in the program's URLs, for instance "/percolator/". "": "/".
	PathPrefix string

	// Username and Password turn on basic authentication; the password has at least
	// MinPasswordBytes. Without them the handler serves only loopback addresses.
	Username, Password string

	// AllowChanges adds the buttons that resolve locks and retry or drop what is parked.
	AllowChanges bool
	// ShowValues lets the row inspector show values, one row at a time.
	ShowValues bool

	// PollInterval is the time between two polls while a page is open; it is 10 s at least while
	// none is. 0: 2 s. From 100 ms to 1 min.
	PollInterval time.Duration

	// Logger receives each change made through the console, with the user and the remote address,
	// without row keys. nil: discard.
	Logger *slog.Logger
}

const defaultPollInterval = 2 * time.Second

// withDefaults sets what is zero and refuses what cannot work.
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
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg, nil
}

package tso

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
)

// The environment variables that [DialOptionsFromEnv] reads: the three files of
// [TLSFiles], the name in the servers' certificates, and whether plaintext is allowed.
const (
	EnvCA         = "PERCOLATOR_TSO_CA"
	EnvCert       = "PERCOLATOR_TSO_CERT"
	EnvKey        = "PERCOLATOR_TSO_KEY"
	EnvServerName = "PERCOLATOR_TSO_SERVER_NAME"
	EnvInsecure   = "PERCOLATOR_TSO_INSECURE" // a boolean, as in Go: 1, true, 0, false …
)

// DialOptionsFromEnv returns the options of [Dial] that the environment asks for, so
// that a program need not be changed to use TLS. Any of EnvCA, EnvCert and
// EnvServerName turns TLS on. Without them, plaintext is spoken, with other machines
// only if EnvInsecure is true. logger, which may be nil, is that of [TLSFiles].
// ErrInvalidArgument: a file cannot be used, or EnvInsecure is no boolean.
func DialOptionsFromEnv(logger *slog.Logger) ([]DialOption, error) {
	files := TLSFiles{
		CA: os.Getenv(EnvCA), Cert: os.Getenv(EnvCert), Key: os.Getenv(EnvKey),
		ServerName: os.Getenv(EnvServerName), Logger: logger,
	}
	insecure := false
	if text := os.Getenv(EnvInsecure); text != "" {
		var err error
		if insecure, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("tso: %w: %s is neither true nor false", ErrInvalidArgument, EnvInsecure)
		}
	}
	switch {
	case files.CA != "" || files.Cert != "" || files.Key != "" || files.ServerName != "":
		creds, err := files.ClientCredentials()
		if err != nil {
			return nil, err
		}
		return []DialOption{WithTransportCredentials(creds)}, nil
	case insecure:
		return []DialOption{WithPlaintext()}, nil
	}
	return nil, nil
}

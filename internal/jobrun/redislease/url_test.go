package redislease_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/jobrun/redislease"
)

func TestURLsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"redis://127.0.0.1:6379": true, "redis://cache.internal": true, "rediss://u:hush@cache.internal:6380/15": true, "redis://:hush@[::1]/0": true,
		"redis://h/": true,
		"redis+sentinel://a,b:26380,[::1]:1/my.master": true, "rediss+sentinel://u:hush@a/m/3?sentinel_password=hush&sentinel_username=s": true,
		"redis+cluster://a:1,b:2,c": true, "rediss+cluster://:hush@one": true, "redis+cluster://a/0": true,
		"redis+cluster://:hu%2Csh@a,b": true,
		"redis://a,b":                  false, "redis+sentinel://a,b": false, "redis+sentinel://a/": false,
		"redis+sentinel://a/m/x":                      false,
		"redis+sentinel://a/m?db=hush":                false,
		"redis+sentinel://a/m?sentinel_username=hush": false, "redis+sentinel://a/m?sentinel_password=hush&sentinel_password=hush": false, "redis+sentinel://a/m?%zzhush": false,
		"redis+cluster://a,b/1": false, "redis+cluster://a,,b": false, "redis+cluster://a,b:x": false,
		"redis+cluster://hush@a,b": false, "redis+cluster://a?sentinel_password=hush": false,
		"redis+cluster://u:hush@a,u:hush@b": false, "redis+ring://a,b": false, "redis+://a": false, "": false, "127.0.0.1:6379": false, "http://h": false,
		"redis://": false, "redis://hush@h": false, "redis://h/x": false, "redis://h/1/2": false, "redis://h/-1": false,
		"redis://h?db=hush": false, "redis://h#hush": false, "redis://:hush@h\x7f": false, "redis://:hush@h:port": false,
		"redis:///0": false,
	} {
		_, err := redislease.New(redislease.Config{URL: url})
		if (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: the error cites it: %v", url, err)
		}
	}
}

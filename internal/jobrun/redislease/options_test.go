package redislease

import (
	"fmt"
	"testing"
)

func TestPlacesOfURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://h":                          "[h:6379]/0 master= cluster=false user=: sentinel=: tls=false",
		"rediss://u:p%40w@[::1]:1/15":        "[[::1]:1]/15 master= cluster=false user=u:p@w sentinel=: tls=true",
		"redis+sentinel://:pw@a:1,b,c:2/m/3": "[a:1 b:26379 c:2]/3 master=m cluster=false user=:pw sentinel=: tls=false",
		"rediss+sentinel://a/m?sentinel_username=s&sentinel_password=p%26w": "[a:26379]/0 master=m cluster=false user=: sentinel=s:p&w tls=true",
		"redis+cluster://a:1,b,[::1]:2":                                     "[a:1 b:6379 [::1]:2]/0 master= cluster=true user=: sentinel=: tls=false",
		"rediss+cluster://u:pw@a/0":                                         "[a:6379]/0 master= cluster=true user=u:pw sentinel=: tls=true",
	} {
		p, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := fmt.Sprintf("%s/%d master=%s cluster=%v user=%s:%s sentinel=%s:%s tls=%v", p.addrs, p.db, p.master, p.cluster,
			p.user, p.password, p.sentinelUser, p.sentinelPassword, p.tls != nil)
		if got != want {
			t.Errorf("%s is %s, want %s", url, got, want)
		}
	}
}

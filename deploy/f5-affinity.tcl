# F5 BIG-IP: an iRule for the virtual server in front of nodes that run Tidegate with sessions.
#
# While the store of sessions is away, a node keeps what its visitors do to itself, and says so with the cookie
# tg_a=NODE.PROOF. This rule leads them back to that node for as long as it is up. Without the cookie, which is
# nearly always, the pool's own load balancing decides; the virtual server needs no persistence profile, and
# should have none: a node that is added takes its share at once then.
#
# NODE is `affinity` in [sessions] of the node's configuration. The rule finds its pool member in a data group,
# so that nothing here changes when nodes come and go:
#
#   tmsh create ltm data-group internal tidegate_nodes type string \
#       records add { node1 { data "10.0.0.11 8080" } node2 { data "10.0.0.12 8080" } }
#   tmsh create ltm rule tidegate_affinity < deploy/f5-affinity.tcl
#   tmsh modify ltm virtual shop rules { tidegate_affinity }
#
# The pool is called `nodes` here. Its monitor asks for readiness, which says that a drain has begun, and never
# takes refusals for a sign of illness:
#
#   tmsh create ltm monitor http tidegate_ready send "GET /.tidegate/readyz HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n" \
#       recv "^HTTP/1\.[01] 200" interval 1 timeout 4
#
# A client may send any NODE that it likes: all it gains is the choice of a node, which the rule takes from the
# data group alone. PROOF is for Tidegate, which sends a cookie of its own when it does not fit.

when HTTP_REQUEST {
    if { [HTTP::cookie exists "tg_a"] } {
        set node [getfield [HTTP::cookie value "tg_a"] "." 1]
        set member [class match -value $node equals tidegate_nodes]
        if { $member ne "" } {
            set address [lindex $member 0]
            set port [lindex $member 1]
            # One that is down or disabled is not asked: the pool picks another, which serves the visitor from
            # the ticket.
            if { [LB::status pool nodes member $address $port] eq "up" } {
                pool nodes member $address $port
            }
        }
    }
}

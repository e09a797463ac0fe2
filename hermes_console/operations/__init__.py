"""What an operator can do to a cluster: one function per act, called by its page and its API view,
so that both behave alike.

Acts check the right, write the audit row and raise `Refused` or the client's errors; they know no
request and no template.
"""

"""Access control: 4.x accounts (50 to 53), 5.x users and policies (3001 to 3010)."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import acl as bodies
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.headers import acl as headers
from rmqcli.codec.operations.access import GET, UPDATE, on_cluster
from rmqcli.codec.operations.operation import NOT_SET, Operation, optional

# fmt: off
UPDATE_AND_CREATE_ACL_CONFIG: Final = Operation(R.UPDATE_AND_CREATE_ACL_CONFIG, "A→B", request=headers.CreateAccessConfigRequestHeader, access=(on_cluster(UPDATE),))
DELETE_ACL_CONFIG: Final = Operation(R.DELETE_ACL_CONFIG, "A→B", request=headers.DeleteAccessConfigRequestHeader, access=(on_cluster(UPDATE),))
GET_BROKER_CLUSTER_ACL_INFO: Final = Operation(R.GET_BROKER_CLUSTER_ACL_INFO, "A→B", reply=headers.GetBrokerAclConfigResponseHeader, access=(on_cluster(GET),))
UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Final = Operation(R.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "A→B", request=headers.UpdateGlobalWhiteAddrsConfigRequestHeader, access=(on_cluster(UPDATE),))
AUTH_CREATE_USER: Final = Operation(R.AUTH_CREATE_USER, "A→B", request=headers.CreateUserRequestHeader, request_body=bodies.UserInfo, remark=NOT_SET, access=(on_cluster(UPDATE),))
AUTH_UPDATE_USER: Final = Operation(R.AUTH_UPDATE_USER, "A→B", request=headers.UpdateUserRequestHeader, request_body=bodies.UserInfo, remark=NOT_SET, access=(on_cluster(UPDATE),))
AUTH_DELETE_USER: Final = Operation(R.AUTH_DELETE_USER, "A→B", request=headers.DeleteUserRequestHeader, remark=NOT_SET, access=(on_cluster(UPDATE),))
AUTH_GET_USER: Final = Operation(R.AUTH_GET_USER, "A→B", request=headers.GetUserRequestHeader, reply_body=optional(bodies.UserInfo), remark=NOT_SET, access=(on_cluster(UPDATE, GET),))
AUTH_LIST_USER: Final = Operation(R.AUTH_LIST_USER, "A→B", request=headers.ListUsersRequestHeader, reply_body=optional(list[bodies.UserInfo]), remark=NOT_SET, access=(on_cluster(UPDATE, GET),))
AUTH_CREATE_ACL: Final = Operation(R.AUTH_CREATE_ACL, "A→B", request=headers.CreateAclRequestHeader, request_body=bodies.AclInfo, remark=NOT_SET, access=(on_cluster(UPDATE),))
AUTH_UPDATE_ACL: Final = Operation(R.AUTH_UPDATE_ACL, "A→B", request=headers.UpdateAclRequestHeader, request_body=bodies.AclInfo, remark=NOT_SET, access=(on_cluster(UPDATE),))
AUTH_DELETE_ACL: Final = Operation(R.AUTH_DELETE_ACL, "A→B", request=headers.DeleteAclRequestHeader, remark=NOT_SET, access=(on_cluster(UPDATE),))
AUTH_GET_ACL: Final = Operation(R.AUTH_GET_ACL, "A→B", request=headers.GetAclRequestHeader, reply_body=optional(bodies.AclInfo), remark=NOT_SET, access=(on_cluster(UPDATE, GET),))
AUTH_LIST_ACL: Final = Operation(R.AUTH_LIST_ACL, "A→B", request=headers.ListAclsRequestHeader, reply_body=optional(list[bodies.AclInfo]), remark=NOT_SET, access=(on_cluster(UPDATE, GET),))
